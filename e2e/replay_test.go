package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"testing"
	"time"
)

// What happened: a copy keyed by the URL alone was given to callers who could
// not decode it or asked for another language, or another id's page.
// Right: the query and every header that Vary names are part of the key; no
// fitting copy means 503.
func TestE7_WrongVariant(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(x *exchange) {
		switch x.req.URL.Path {
		case "/zip":
			if x.req.Header.Get("Accept-Encoding") == "gzip" {
				x.respond(http.StatusOK, "\x1f\x8b zipped", "Content-Encoding: gzip", "Vary: Accept-Encoding")
				return
			}
			x.respond(http.StatusOK, "plain", "Vary: Accept-Encoding")
		case "/lang":
			x.respond(http.StatusOK, x.req.Header.Get("Accept-Language"), "Vary: X-Other, accept-language")
		default:
			x.respond(http.StatusOK, "id "+x.req.URL.RawQuery)
		}
	})
	s := start(t, stale+`
dependencies:
  - {name: a, listen: $A, upstream: "http://$U"}
`, u)
	gzip, german := "Accept-Encoding: gzip", "Accept-Language: de"
	s.get("A", "/zip", gzip)
	s.get("A", "/lang", german)
	s.get("A", "/x?id=1")
	s.wantMetric(t, 3, "sidecar_cache_stores_total")
	s.force(t, "a", "open")
	wantCopy(t, s.get("A", "/zip", gzip), "\x1f\x8b zipped", "open")
	wantCopy(t, s.get("A", "/lang", german), "de", "open")
	wantCopy(t, s.get("A", "/x?id=1"), "id id=1", "open")
	for what, r := range map[string]result{
		"without gzip": s.get("A", "/zip"), "with another coding": s.get("A", "/zip", "Accept-Encoding: br"),
		"in English": s.get("A", "/lang", "Accept-Language: en"), "in no language": s.get("A", "/lang"),
		"with another X-Other": s.get("A", "/lang", german, "X-Other: 1"),
		"of another id":        s.get("A", "/x?id=2"), "without a query": s.get("A", "/x"), "with an empty query": s.get("A", "/x?"),
	} {
		if r.status != http.StatusServiceUnavailable || r.reason() != "open" {
			t.Errorf("a call %s got %v, want 503", what, r)
		}
	}
}

// What happened: a fallback wrote a body where none is allowed, and the
// connection's next answer could not be read.
// Right: no body byte for HEAD, 204 and 304, and the next answer on the same
// connection parses; a copy answers conditions and ranges as the upstream would.
func TestE8_BodiesWhereNoneIsAllowed(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(x *exchange) {
		x.respond(http.StatusOK, "hello", `ETag: "v1"`, "Last-Modified: Mon, 02 Jan 2023 15:04:05 GMT")
	})
	s := start(t, base+`
dependencies:
  - {name: body, listen: $BODY, upstream: "http://$U", fallback: [{static: {body: FB}}]}
  - {name: empty, listen: $EMPTY, upstream: "http://$U", fallback: [{static: {status: 204}}]}
  - {name: copy, listen: $COPY, upstream: "http://$U", fallback: [{stale: {max_age: 10m}}]}
`, u)
	if r := s.get("COPY", "/x"); r.body != "hello" {
		t.Fatal(r)
	}
	s.wantMetric(t, 1, "sidecar_cache_stores_total")
	for _, name := range []string{"body", "empty", "copy"} {
		s.force(t, name, "open")
	}
	type want struct {
		method, lines string
		status        int
		body, length  string // length: the Content-Length, empty for none
	}
	none, match, other := "", "If-None-Match: \"v1\"\r\n", "If-None-Match: \"v0\"\r\n"
	for port, wants := range map[string][]want{
		"BODY":  {{"HEAD", none, 200, "", "2"}, {"GET", none, 200, "FB", "2"}},
		"EMPTY": {{"GET", none, 204, "", ""}, {"HEAD", none, 204, "", ""}, {"GET", none, 204, "", ""}},
		"COPY": {
			{"HEAD", none, 200, "", "5"}, {"GET", match, 304, "", ""}, {"GET", other, 200, "hello", "5"}, {"HEAD", match, 304, "", ""},
			{"GET", "If-Modified-Since: Mon, 02 Jan 2023 15:04:05 GMT\r\n", 304, "", ""},
			{"GET", "If-Modified-Since: Mon, 02 Jan 2022 15:04:05 GMT\r\n", 200, "hello", "5"},
			{"GET", "Range: bytes=1-3\r\n", 206, "ell", "3"}, {"GET", "Range: bytes=-2\r\n", 206, "lo", "2"},
			{"GET", "Range: bytes=1-3\r\nIf-Range: \"v0\"\r\n", 200, "hello", "5"}, {"GET", "Range: bytes=7-9\r\n", 416, "?", "?"}, {"GET", none, 200, "hello", "5"},
		},
	} {
		// All at once: an answer's surplus would be taken for the next one's.
		var requests bytes.Buffer
		for _, w := range wants {
			fmt.Fprintf(&requests, "%s /x HTTP/1.1\r\nHost: a.test\r\n%s\r\n", w.method, w.lines)
		}
		c := s.dial(t, port)
		c.send(t, requests.String())
		for i, w := range wants {
			r := c.response(w.method)
			length := r.header.Get("Content-Length")
			if r.err != nil || r.status != w.status || w.body != "?" && (r.body != w.body || length != w.length) {
				t.Fatalf("%s, answer %d to %s %q: %v, Content-Length %q, want %+v", port, i+1, w.method, w.lines, r, length, w)
			}
			if r.header.Get("Sidecar-Degraded") == "" {
				t.Errorf("%s, answer %d is not marked: %v", port, i+1, r.header)
			}
			if got := r.header.Get("Content-Range"); w.lines == "Range: bytes=1-3\r\n" && got != "bytes 1-3/5" {
				t.Errorf("Content-Range is %q", got)
			}
		}
		wantSilence(t, c)
	}
}

// wantSilence fails the test if more comes on a connection.
func wantSilence(t *testing.T, c *rawCaller) {
	t.Helper()
	_ = c.conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if more, _ := bufio.NewReader(c.in).Peek(1); len(more) > 0 {
		t.Errorf("more came on the connection: %q", more)
	}
}
