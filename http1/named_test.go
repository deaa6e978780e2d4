//go:build unix

package http1

import (
	"net/http"
	"strings"
	"testing"
)

// An upstream that closes the connection may say with the same field which
// others are meant for the connection alone (RFC 9110 §7.6.1). net/http drops
// that field, and whoever passes the answer on could not know.
func TestFieldsNamedByConnection(t *testing.T) {
	rest := "X-Hop: 1\r\nX-Other: 2\r\nX-Stays: 3\r\nContent-Length: 2\r\n\r\nok"
	for name, c := range map[string]struct {
		raw    string
		header http.Header
	}{
		"close and a field": {h11 + "Connection: close, X-Hop\r\n" + rest,
			http.Header{"X-Other": {"2"}, "X-Stays": {"3"}, "Content-Length": {"2"}}},
		"in any case, with any spaces": {h11 + "connection:x-hop ,\tCLOSE , , X-oTHER\r\n" + rest,
			http.Header{"X-Stays": {"3"}, "Content-Length": {"2"}}},
		"on several lines, behind": {h11 + strings.Replace(rest, "\r\n\r\n", "\r\nConnection: X-Hop\r\nConnection: close\r\nConnection: X-Other\r\n\r\n", 1),
			http.Header{"X-Stays": {"3"}, "Content-Length": {"2"}}},
		"folded": {h11 + "Connection: close,\r\n X-Hop\r\n" + rest,
			http.Header{"X-Other": {"2"}, "X-Stays": {"3"}, "Content-Length": {"2"}}},
		"lines end with LF": {strings.ReplaceAll(h11+"Connection: close, X-Hop\r\n"+rest, "\r", ""),
			http.Header{"X-Other": {"2"}, "X-Stays": {"3"}, "Content-Length": {"2"}}},
		"behind an interim response": {"HTTP/1.1 103 Early Hints\r\nConnection: X-Stays\r\nX-Stays: 0\r\n\r\n" + h11 + "Connection: close, X-Hop\r\n" + rest,
			http.Header{"X-Other": {"2"}, "X-Stays": {"3"}, "Content-Length": {"2"}}},
		"longer than a buffer": {h11 + "X-Long: " + strings.Repeat("x", 5000) + "\r\nConnection: close, X-Hop, X-Long\r\n" + rest,
			http.Header{"X-Other": {"2"}, "X-Stays": {"3"}, "Content-Length": {"2"}}},
		"the length is everyone's": {h11 + "Connection: close, Content-Length, Transfer-Encoding\r\n" + rest,
			http.Header{"X-Hop": {"1"}, "X-Other": {"2"}, "X-Stays": {"3"}, "Content-Length": {"2"}}},
		"close alone": {h11 + "Connection: close\r\n" + rest,
			http.Header{"X-Hop": {"1"}, "X-Other": {"2"}, "X-Stays": {"3"}, "Content-Length": {"2"}}},
		"not closed: the field is there to tell": {h11 + "Connection: X-Hop\r\n" + rest,
			http.Header{"Connection": {"X-Hop"}, "X-Hop": {"1"}, "X-Other": {"2"}, "X-Stays": {"3"}, "Content-Length": {"2"}}},
		"HTTP/1.0: the field is there to tell": {h10 + "Connection: close, X-Hop\r\n" + rest,
			http.Header{"Connection": {"close, X-Hop"}, "X-Hop": {"1"}, "X-Other": {"2"}, "X-Stays": {"3"}, "Content-Length": {"2"}}},
		"in the body": {h11 + "X-Hop: 1\r\n\r\nok\r\nConnection: close, X-Hop\r\n\r\n", http.Header{"X-Hop": {"1"}}},
	} {
		for at := 0; at <= len(c.raw); at += 1 + len(c.raw)/500*100 {
			cut := func(p *peer) { say(c.raw[:at])(p); settle(p); say(c.raw[at:])(p) }
			got := play(t, ours, []script{{request, cut, settle, hangUp}}, bare("GET")).Replies[0]
			if d := diff(session{Replies: []reply{{Header: c.header}}}, session{Replies: []reply{{Header: got.Header}}}); d != "" {
				t.Errorf("%s, cut at %d (-want +got):\n%s", name, at, d)
				break
			}
			if got.Failed || got.Broken || !strings.HasPrefix(got.Body, "ok") {
				t.Errorf("%s, cut at %d: %+v", name, at, got)
			}
		}
	}
	interim := play(t, ours, []script{{request, say("HTTP/1.1 103 Early Hints\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nLink: a\r\n\r\n" + ok)}}, bare("GET"))
	if got := interim.Replies[0].Interim; len(got) != 1 || got[0] != "103map[Link:[a]]" && got[0] != "103 map[Link:[a]]" {
		t.Errorf("an interim response: %q", got)
	}
}
