package proxy

import (
	"errors"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"time"
)

// mostInterim bounds the interim responses of one attempt. net/http bounds
// their headers together only where nobody listens to them.
const mostInterim = 100

var errInterim = errors.New("the upstream sent too many interim responses")

// interim is an interim response (RFC 9110 §15.2), such as 103 Early Hints.
type interim struct {
	code   int
	header http.Header
}

// traced returns the attempt's request as net/http's Transport gets it, with
// the attempt's context, body and trace. The trace that ReverseProxy has put
// into the request's own context is left out, but for the function that passes
// interim responses on: each attempt has a trace of its own, so that late news of one cannot be taken for another's.
func (a *attempt) traced(req *http.Request) *http.Request {
	trace := &httptrace.ClientTrace{
		GotConn:        a.gotConn,
		WroteHeaders:   func() { a.wrote.Store(true) },
		Got1xxResponse: func(code int, h textproto.MIMEHeader) error { return a.Interim(code, http.Header(h)) },
	}
	if a.c.r.Header.Get("Expect") != "" {
		// The Transport would send the body behind an answer that came in
		// place of 100 Continue, and so ask the caller for it.
		trace.GotFirstResponseByte = func() { a.body.hold(true) }
	}
	out := req.WithContext(httptrace.WithClientTrace(a.context(), trace))
	if a.body != nil {
		out.Body = a.body
	}
	return out
}

// gotConn notes which connection the attempt is sent on. A second one, after
// something was written on the first, means that the HTTP/2 transport sends the
// request again by itself: the first was an attempt too, which the upstream
// refused to process.
func (a *attempt) gotConn(info httptrace.GotConnInfo) {
	if a.wrote.Swap(false) && !a.unsent() {
		a.c.tries++
		a.c.d.observer.AttemptDone(Attempt{
			Dependency: a.c.d.name, Result: Result(ReasonReset), Retry: a.retry, Headers: time.Since(a.start),
		})
		a.retry = true
	}
	a.conn, a.reused = info.Conn, info.Reused
	a.before, _ = writtenOn(info.Conn)
}

// unsent reports whether provably no byte of this attempt reached a
// connection. What a drill held up for too long would have been sent.
func (a *attempt) unsent() bool {
	if a.exchange.Written() > 0 {
		return false
	}
	if a.conn == nil {
		return !a.delayed.cut
	}
	written, known := writtenOn(a.conn)
	return known && written == a.before
}

// Interim passes an interim response on, without the fields of the
// upstream's connection, which ReverseProxy would pass too. While the attempt
// may still be made again it waits for the attempt's end, so that nothing of a
// failed attempt reaches the caller.
func (a *attempt) Interim(code int, header http.Header) error {
	a.body.hold(false)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.answered {
		return nil
	}
	if a.interims++; a.interims > mostInterim {
		return errInterim
	}
	if code == http.StatusContinue {
		return nil // net/http says it, when the caller's body is first read
	}
	removeHopByHop(header)
	if a.c.tries < a.c.policy.Retry.MaxRetries && idempotent(a.c.r) {
		a.held = append(a.held, interim{code, header})
		return nil
	}
	return a.c.passInterim(code, textproto.MIMEHeader(header))
}

// releaseInterim passes on what the last attempt said before its answer.
func (a *attempt) releaseInterim() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, i := range a.held {
		_ = a.c.passInterim(i.code, textproto.MIMEHeader(i.header))
	}
	a.held = nil
}

// hopByHop are the header fields of one connection (RFC 9110 §7.6.1).
var hopByHop = []string{"Connection", "Proxy-Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

// removeHopByHop removes them and those that Connection names.
func removeHopByHop(h http.Header) {
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hopByHop {
		h.Del(name)
	}
}
