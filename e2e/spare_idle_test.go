package e2e

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// What happened: each kind of request had connections of its own, or uploads
// left theirs unusable.
// Right: one after the other, with a body and without, go over one connection.
func TestSpareOneConnection(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(x *exchange) {
		_, _ = io.Copy(io.Discard, x.req.Body)
		x.respond(http.StatusOK, "ok")
	})
	s := start(t, one, u)
	unknown := struct{ io.Reader }{strings.NewReader("a body of unknown length")} // is sent in chunks
	for _, body := range []io.Reader{nil, strings.NewReader("x"), nil, unknown, strings.NewReader(strings.Repeat("x", 1<<20)), nil} {
		method := http.MethodPut
		if body == nil {
			method = http.MethodGet
		}
		if r := s.do(context.Background(), method, "A", "/", body); r.status != http.StatusOK || r.body != "ok" {
			t.Fatal(r)
		}
	}
	if accepted, _ := u.connections(); accepted != 1 {
		t.Errorf("%d connections for calls that came one after the other, want 1", accepted)
	}
}

// What happened: an upstream that closes idle connections cost the next call a
// failure, and the closed ones stayed open on the proxy's side.
// Right: the next call goes over a new one, and is one attempt; the others are
// closed soon, also if no call comes.
func TestSpareIdleConnectionsDie(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(x *exchange) {
		time.Sleep(20 * time.Millisecond) // so that the calls need a connection each
		x.respond(http.StatusOK, "ok")
	})
	s := start(t, one, u)
	const rounds, callers = 10, 5
	for range rounds {
		for _, r := range together(callers, func(int) result { return s.get("A", "/") }) {
			if r.status != http.StatusOK {
				t.Error(r)
			}
		}
		u.refuse()
		u.accept(t)
	}
	s.wantMetric(t, rounds*callers, "sidecar_attempts_total", "dependency", "a")
	s.wantMetric(t, rounds*callers, "sidecar_attempts_total", "dependency", "a", "result", "success")
	s.client.CloseIdleConnections()
	s.checkLeaks(t)
}

// What happened: an upstream said 408 on an idle connection, or sent an answer
// twice, and the next caller got it.
// Right: what nobody asked for ends the connection; the next call gets its own
// answer over a new one.
func TestSpareUnasked(t *testing.T) {
	t.Parallel()
	for _, unasked := range []string{
		"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong",
		"x",
	} {
		u := newUpstream(t, func(x *exchange) {
			x.respond(http.StatusOK, "ok")
			_, _ = io.WriteString(x.conn, unasked)
		})
		s := start(t, one, u)
		for range 3 {
			if r := s.get("A", "/"); r.status != http.StatusOK || r.body != "ok" {
				t.Errorf("after %q: %v", unasked, r)
			}
			time.Sleep(50 * time.Millisecond)
		}
		if accepted, _ := u.connections(); accepted != 3 {
			t.Errorf("after %q: %d connections for 3 calls, want 3", unasked, accepted)
		}
	}
}
