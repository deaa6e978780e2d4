package e2e

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// What happened: what came on a connection behind a broken request was taken
// for the next one (golang/go#11930), or one party took another length for
// true.
// Right: nothing that a caller did not frame as a request reaches the
// upstream, and the connection of a broken one is closed. What is too large is
// refused, in either direction, before it can fill memory.
func TestK6_LeftoverBodyBecomesARequest(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(x *exchange) {
		if x.req.URL.Path == "/large" {
			x.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n")
			line := "X-Long: " + strings.Repeat("x", 8<<10) + "\r\n"
			for sent := 0; sent < 20<<20; sent += len(line) {
				if !x.write(line) {
					return
				}
			}
			x.write("\r\nok")
			return
		}
		_, _ = x.body()
		x.respond(http.StatusOK, "ok")
	})
	s := start(t, one+"    breaker: {mode: \"off\"}\n    timeout: 1s\n", u)
	const quit = "GET /quit HTTP/1.1\r\nHost: a.test\r\n\r\n"
	const host = " HTTP/1.1\r\nHost: a.test\r\n"
	if r := s.get("A", "/"); r.status != http.StatusOK {
		t.Fatal(r)
	}
	before := s.metrics(t).sum(t, "process_resident_memory_bytes")

	for name, tt := range map[string]struct {
		request string
		status  int
		reaches int  // requests that reach the upstream
		goes    bool // the connection goes on, so that /quit is the caller's
	}{
		"a length and a transfer coding": {"POST /both" + host + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, 0, false},
		"the same the other way round":   {"POST /both" + host + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n", 400, 0, false},
		"both, and a body with a request in it": {
			"POST /both" + host + "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nX", 400, 0, false,
		},
		// It cannot be told, so that it is the last one on its connection.
		"both, and a body that repeats the head without": {
			"POST /both" + host + "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n2d\r\nPOST /both" + host + "X: 123\r\n\r\n\r\n0\r\n\r\nX", 200, 1, false,
		},
		"both, and a long head": {
			"POST /both" + host + "X: " + strings.Repeat("x", 16<<10) + "\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nX", 200, 1, false,
		},
		"two lengths":             {"POST /two" + host + "Content-Length: 4\r\nContent-Length: 40\r\n\r\nbody", 400, 0, false},
		"a list of lengths":       {"POST /two" + host + "Content-Length: 4, 40\r\n\r\nbody", 400, 0, false},
		"a signed length":         {"POST /sign" + host + "Content-Length: +4\r\n\r\nbody", 400, 0, false},
		"two transfer codings":    {"POST /te" + host + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", 501, 0, false},
		"an unknown one":          {"POST /te" + host + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501, 0, false},
		"a space before a colon":  {"POST /space" + host + "Content-Length : 4\r\n\r\nbody", 400, 0, false},
		"a folded length":         {"POST /fold" + host + "X: y\r\n Content-Length: 4\r\n\r\n", 200, 2, true},
		"2 MiB of headers":        {"GET /headers" + host + "X-Long: " + strings.Repeat("x", 2<<20) + "\r\n\r\n", 431, 0, false},
		"2 MiB of request target": {"GET /" + strings.Repeat("x", 2<<20) + host + "\r\n", 431, 0, false},
	} {
		seen := u.requests()
		c := s.dial(t, "A")
		c.sent = time.Now()
		go func() { _, _ = io.WriteString(c.conn, tt.request+quit) }()
		r := c.response(http.MethodPost)
		if r.err != nil && tt.status != 431 || r.status != tt.status { // of 2 MiB a part stays unread, which resets
			t.Errorf("%s: %v, want %d", name, r, tt.status)
		}
		if tt.goes {
			if r := c.response(http.MethodGet); r.status != http.StatusOK {
				t.Errorf("%s: the call behind it: %v", name, r)
			}
		} else if rest, err := io.ReadAll(c.in); len(rest) > 0 {
			t.Errorf("%s: the connection goes on: %.200q, %v", name, rest, err)
		}
		c.leave()
		if n := u.requests() - seen; n != tt.reaches {
			t.Errorf("%s: %d requests reached the upstream, want %d", name, n, tt.reaches)
		}
	}
	wanted := u.requests() // from here on there is no more /quit

	for _, framing := range []string{"Content-Length: 1000\r\n\r\n0123456789", "Transfer-Encoding: chunked\r\n\r\n3e8\r\n0123456789"} {
		for _, early := range []bool{false, true} { // what comes before the stall ends is body
			c := s.dial(t, "A")
			c.send(t, "POST /stalls"+host+framing)
			if early {
				time.Sleep(200 * time.Millisecond)
				_, _ = io.WriteString(c.conn, quit)
			}
			r := c.response(http.MethodPost)
			if r.status != 0 && r.status != http.StatusRequestTimeout {
				t.Errorf("a stalled body: %v", r)
			}
			wantTook(t, "ending a stalled body", r.took, time.Second)
			_, _ = io.WriteString(c.conn, quit)
			if rest, _ := io.ReadAll(c.in); len(rest) > 0 {
				t.Errorf("the connection of a stalled body goes on: %q", rest)
			}
			c.leave()
		}
	}
	for n := wanted; n < u.requests(); n++ {
		if x := u.exchange(t, n+1); x.req.URL.Path == "/quit" {
			t.Errorf("a leftover became a request: %q", x.raw())
		}
	}

	if r := s.get("A", "/large"); r.status != http.StatusBadGateway || r.reason() != "protocol" {
		t.Errorf("20 MiB of response headers: %v", r)
	}
	if r := s.get("A", "/"); r.status != http.StatusOK {
		t.Errorf("the call after it: %v", r)
	}
	if grown := s.metrics(t).sum(t, "process_resident_memory_bytes") - before; grown > 32<<20 && slack == 0 {
		t.Errorf("resident memory grew by %.0f MiB", grown/(1<<20))
	}
}
