package e2e

import (
	"net/http"
	"sync"
	"testing"
	"time"
)

// TestReload_ChangedUpstream: a new pool, a fresh breaker, none of the old
// one's copies; calls in flight end at the old one under their old settings.
func TestReload_ChangedUpstream(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	old := newUpstream(t, func(x *exchange) {
		switch x.req.URL.Path {
		case "/held":
			x.until(release)
			x.respond(http.StatusOK, "old")
		case "/late":
			x.until(release)
			x.respond(http.StatusInternalServerError, "old")
		case "/page":
			x.respond(http.StatusOK, "old")
		default:
			x.respond(http.StatusInternalServerError, "no")
		}
	})
	next := newUpstream(t, func(x *exchange) { x.respond(http.StatusOK, "new") })
	config := func(upstream, timeout string) string {
		return base + `
dependencies:
  - name: a
    listen: $A
    upstream: http://` + upstream + `
    breaker: {cooldown: 60s}
    timeout: ` + timeout + `
    attempt_timeout: ` + timeout + `
    fallback: [{stale: {max_age: 10m}}]
`
	}
	s := start(t, config("$U1", "5s"), old, next)
	s.get("A", "/page")
	var calls sync.WaitGroup
	var held, late result
	calls.Go(func() { held = s.get("A", "/held") })
	calls.Go(func() { late = s.get("A", "/late") })
	defer calls.Wait()
	old.await(t, 3)
	for range 3 {
		s.get("A", "/fails")
	}
	if st := s.api(t, "a").Breaker.State; st != "open" {
		t.Fatalf("the circuit is %s", st)
	}
	s.reload(t, config("$U2", "200ms"))
	reloaded := time.Now()
	if b := s.api(t, "a").Breaker; b.State != "closed" || b.Reason != "upstream changed" || b.Window.Calls != 0 {
		t.Errorf("after the change the breaker is %+v, want a fresh one", b)
	}
	if r := s.get("A", "/now"); r.body != "new" {
		t.Errorf("a call after the change: %v", r)
	}
	next.refuse()
	if r := s.get("A", "/page"); r.status != http.StatusBadGateway {
		t.Errorf("a copy from the old upstream: %v, want 502", r)
	}
	time.Sleep(time.Until(reloaded.Add(300 * time.Millisecond))) // beyond the new timeout
	close(release)
	calls.Wait()
	if held.status != http.StatusOK || held.body != "old" {
		t.Errorf("the call in flight: %v, want its answer under the old timeout", held)
	}
	if late.status != http.StatusInternalServerError {
		t.Errorf("the call in flight that fails: %v", late)
	}
	if b := s.api(t, "a").Breaker; b.State != "closed" || b.Window.Failures != 1 {
		t.Errorf("the breaker is %+v, want only the new upstream's one failure in it", b)
	}
	if !poll(2*time.Second, func() bool { _, open := old.connections(); return open == 0 }) {
		t.Errorf("connections to the old upstream are still open")
	}
	s.wantMetric(t, 2, "sidecar_breaker_transitions_total", "dependency", "a")
}

// TestReload_NewUpstreamIsNotBlamedForTheOldOne: calls that waited in the queue
// while the upstream changed, and retries of calls in flight, may still fail at
// the old upstream; the fresh breaker hears nothing of it.
func TestReload_NewUpstreamIsNotBlamedForTheOldOne(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	old := newUpstream(t, func(x *exchange) {
		if x.until(release) {
			x.respond(http.StatusServiceUnavailable, "no")
		}
	})
	next := newUpstream(t, ok)
	config := func(upstream string) string {
		return base + `
dependencies:
  - name: a
    listen: $A
    upstream: http://` + upstream + `
    timeout: 5s
    attempt_timeout: 5s
    breaker: {cooldown: 60s}
    bulkhead: {max_concurrent: 2, max_waiting: 5, queue_timeout: 5s}
    retry: {max_retries: 2, backoff: {base: 1ms, max: 1ms}}
`
	}
	s := start(t, config("$U1"), old, next)
	var calls sync.WaitGroup
	for range 6 {
		calls.Go(func() { s.get("A", "/x") })
	}
	defer calls.Wait()
	if !poll(patience, func() bool { return s.api(t, "a").Bulkhead.Waiting == 4 }) {
		t.Fatalf("the bulkhead is %+v, want 4 waiting", s.api(t, "a").Bulkhead)
	}
	s.reload(t, config("$U2"))
	close(release)
	calls.Wait()
	if b := s.api(t, "a").Breaker; b.State != "closed" || b.Window.Failures != 0 {
		t.Errorf("the new upstream, which never failed, has the breaker %+v", b)
	}
	if r := s.get("A", "/x"); r.status != http.StatusOK {
		t.Errorf("a call to the new upstream: %v", r)
	}
}
