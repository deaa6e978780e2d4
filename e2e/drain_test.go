package e2e

import (
	"context"
	"io"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"
)

// awaitUnready waits until the sidecar says that it drains.
func (s *sidecar) awaitUnready(t *testing.T) {
	t.Helper()
	if !poll(patience, func() bool { return s.health("/readyz") == http.StatusServiceUnavailable }) {
		t.Fatalf("/readyz answers %d after SIGTERM, want 503", s.health("/readyz"))
	}
}

// wantExit waits for the end of the process and wants exit code 0 within a
// time after a moment.
func (s *sidecar) wantExit(t *testing.T, since time.Time, least, most time.Duration) {
	t.Helper()
	select {
	case <-s.exited:
	case <-time.After(most + patience):
	}
	took := time.Since(since)
	if took < least {
		t.Errorf("the sidecar ended after %s, want at least %s", took, least)
	}
	wantWithin(t, "the sidecar's end", took, most)
	s.stop(t)
}

// TestDrain_LastCallsGoOut: after SIGTERM /readyz says 503, new and kept
// connections are still served, calls in flight end with their answers, and
// the process leaves with 0 a second after the last call.
func TestDrain_LastCallsGoOut(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	u := newUpstream(t, func(x *exchange) {
		if x.req.URL.Path != "/held" || x.until(release) {
			x.respond(http.StatusOK, "ok")
		}
	})
	s := start(t, base+`
dependencies:
  - {name: a, listen: $A, upstream: "http://$U", attempt_timeout: 5s, timeout: 5s}
`, u)
	kept := s.dial(t, "A")
	kept.get(t, "/before")
	if r := kept.response("GET"); r.status != http.StatusOK {
		t.Fatal(r)
	}
	var calls sync.WaitGroup
	results := make([]result, 5)
	for i := range results {
		calls.Go(func() { results[i] = s.get("A", "/held") })
	}
	defer calls.Wait()
	u.await(t, 6)
	s.signal(t, syscall.SIGTERM)
	s.awaitUnready(t)
	if status := s.health("/livez"); status != http.StatusOK {
		t.Errorf("/livez answers %d while draining", status)
	}
	var last time.Time
	for i := range 3 {
		last = time.Now()
		kept.get(t, "/kept")
		if r := kept.response("GET"); r.status != http.StatusOK || r.err != nil || r.header.Get("Connection") == "close" {
			t.Errorf("call %d on the kept connection while draining: %v %v", i, r, r.header)
		}
		if r := s.do(context.Background(), http.MethodGet, "A", "/new", nil, "Connection: close"); r.status != http.StatusOK {
			t.Errorf("call %d on a new connection while draining: %v", i, r)
		}
	}
	if r := s.do(context.Background(), http.MethodGet, "ADMIN", "/api/dependencies", nil); r.status != http.StatusOK {
		t.Errorf("the API while draining: %v", r)
	}
	released := time.Now()
	close(release)
	calls.Wait()
	for _, r := range results {
		if r.status != http.StatusOK || r.body != "ok" || r.err != nil {
			t.Errorf("a call in flight at SIGTERM: %v", r)
		}
	}
	s.wantExit(t, last, time.Second, released.Add(1500*time.Millisecond).Sub(last))
}

// What happened: an idle process took its whole grace period to end.
// Right: without calls in flight it ends at once, with an open circuit, kept
// connections, connections on which nothing was ever sent, and a listener to
// the admin's events.
func TestI2_IdleExit(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, fails(http.StatusInternalServerError))
	s := start(t, base+`
dependencies:
  - {name: a, listen: $A, upstream: "http://$U", breaker: {cooldown: 60s}}
  - {name: b, listen: $B, upstream: "http://$U"}
  - {name: c, listen: $C, upstream: "http://$U"}
`, u)
	for range 3 {
		s.get("A", "/")
	}
	last := time.Now()
	if st := s.api(t, "a").Breaker.State; st != "open" {
		t.Fatalf("the circuit is %s", st)
	}
	for _, port := range []string{"A", "B", "C"} {
		s.dial(t, port) // an app's pool that was opened in advance
	}
	s.followEvents(t) // a page that stays open
	time.Sleep(time.Until(last.Add(time.Second)))
	told := time.Now()
	s.signal(t, syscall.SIGTERM)
	s.wantExit(t, told, 0, time.Second)
}

// What happened: a second signal crashed the process, or was ignored.
// Right: it ends the process at once and in good order.
func TestI2_SecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, hang)
	s := start(t, base+`
dependencies:
  - {name: a, listen: $A, upstream: "http://$U", attempt_timeout: 20s, timeout: 20s}
`, u)
	s.hold(t, u, "A")
	s.signal(t, syscall.SIGTERM)
	s.awaitUnready(t)
	select {
	case <-s.exited:
		t.Fatalf("the sidecar left a call in flight behind")
	default:
	}
	told := time.Now()
	s.signal(t, syscall.SIGTERM)
	s.wantExit(t, told, 0, 300*time.Millisecond)
}

// Right, too, when all that is left is the stream of a dependency that a reload
// has removed.
func TestI2_SecondSignalEndsStreamsOfRemovedDependencies(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(x *exchange) {
		x.head(http.StatusOK, "Content-Type: text/event-stream", "Transfer-Encoding: chunked")
		x.hang()
	})
	const without = base + `
shutdown: {drain_timeout: 5s}
dependencies:
  - {name: a, listen: $A, upstream: "http://$U"}
`
	s := start(t, without+`
  - {name: b, listen: $B, upstream: "http://$U"}
`, u)
	events := s.dial(t, "B")
	events.get(t, "/events")
	if _, err := http.ReadResponse(events.in, nil); err != nil {
		t.Fatal(err)
	}
	s.reload(t, without)
	s.signal(t, syscall.SIGTERM)
	if !poll(patience, func() bool { return len(s.logs("msg", "draining")) == 1 }) {
		t.Fatalf("the sidecar does not drain")
	}
	// Whatever the first signal still waits for, the second one does not.
	time.Sleep(100 * time.Millisecond)
	told := time.Now()
	s.signal(t, syscall.SIGTERM)
	s.wantExit(t, told, 0, 300*time.Millisecond)
}

// What happened: the exit waited for streams until the process was killed, or
// cut them at once.
// Right: they live until drain_timeout, then they are closed, and the process
// leaves with 0.
func TestI2_StreamsLiveUntilDrainTimeout(t *testing.T) {
	t.Parallel()
	const drain = 1500 * time.Millisecond
	u := newUpstream(t, func(x *exchange) {
		if x.req.Header.Get("Upgrade") != "" {
			x.head(http.StatusSwitchingProtocols, "Connection: Upgrade", "Upgrade: echo")
			x.over = true
			_, _ = io.Copy(x.conn, x.in)
			return
		}
		x.head(http.StatusOK, "Content-Type: text/event-stream", "Transfer-Encoding: chunked")
		for x.delay(20 * time.Millisecond) {
			x.chunk("data: tick\n\n")
		}
	})
	s := start(t, base+`
shutdown: {drain_timeout: 1500ms}
dependencies:
  - {name: a, listen: $A, upstream: "http://$U"}
`, u)
	events, tunnel := s.dial(t, "A"), s.dial(t, "A")
	events.get(t, "/events")
	res, err := http.ReadResponse(events.in, nil)
	if err != nil {
		t.Fatal(err)
	}
	tunnel.get(t, "/tunnel", "Connection: Upgrade", "Upgrade: echo")
	if switched, err := http.ReadResponse(tunnel.in, nil); err != nil || switched.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(switched, err)
	}
	told := time.Now()
	s.signal(t, syscall.SIGTERM)
	var streams sync.WaitGroup
	var eventsEnd, tunnelEnd time.Time
	var eventsError error
	streams.Go(func() {
		_, eventsError = io.Copy(io.Discard, res.Body)
		eventsEnd = time.Now()
	})
	streams.Go(func() {
		echo := make([]byte, 4)
		for {
			if _, err := io.WriteString(tunnel.conn, "ping"); err != nil {
				break
			}
			if _, err := io.ReadFull(tunnel.in, echo); err != nil || string(echo) != "ping" {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
		tunnelEnd = time.Now()
	})
	streams.Wait()
	wantTook(t, "the event stream's life after SIGTERM", eventsEnd.Sub(told), drain)
	wantTook(t, "the tunnel's life after SIGTERM", tunnelEnd.Sub(told), drain)
	if eventsError == nil {
		t.Errorf("the event stream that was cut ended cleanly")
	}
	s.wantExit(t, told, drain, drain+500*time.Millisecond)
}
