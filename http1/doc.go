// Package http1 is the client's side of HTTP/1.1 (RFC 9112), in the goroutine of
// its caller.
//
// [net/http.Transport] keeps two goroutines beside each connection, one that
// writes and one that reads. Handing a request and its answer over to them and
// back is about a fifth of what a proxied call costs. Here the caller's
// goroutine writes and reads by itself; only a request body, which has to be
// sent while its answer may come already, gets a goroutine for as long as it
// lasts. Messages are written and parsed by net/http
// ([net/http.Request.Write], [net/http.ReadResponse]); what is here is the
// connection they run on.
//
// # What it does not do
//
// Upgrades, "Expect: 100-continue", TLS and HTTP/2 are net/http's Transport's.
// It follows no redirect, adds no header, asks for no compression and sends
// nothing twice: a request whose connection died is its caller's to repeat,
// who learns from [Exchange.Written] whether a byte of it had gone out.
//
// # What it is held against
//
// A request is written, refused and answered, and its connection used again or
// not, as net/http's Transport would have it; the tests play the same upstream
// to both. It differs where that Transport depends on chance, or could not
// tell:
//
//   - An upstream that stops reading and answers is heard for a moment more.
//   - An error is returned at once, not after the read of the request body that
//     is under way.
//   - Where an answer's Connection field says close, net/http drops the field;
//     here the fields it names (RFC 9110 §7.6.1) are dropped with it.
//
// # Connections
//
// A connection is used again once a request has been sent and its answer read,
// both to their ends, unless either side said otherwise, or something came that
// nobody asked for. Before it is used again it is looked at: one that the other
// side has closed meanwhile is not. Idle connections are looked at from time to
// time as well, so that those closed by the other side do not stay, and closed
// after [Transport.IdleTimeout].
package http1
