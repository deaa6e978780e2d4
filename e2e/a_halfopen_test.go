package e2e

import (
	"net/http"
	"testing"
	"time"
)

// What happened: a probe that ended without a verdict (its caller left) kept
// its place, so the circuit stayed half-open and refused everything for ever.
// Right: the place is given back, and the next call is the next probe.
func TestA1_ProbeLostToNeutralOutcome(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, ok)
	s := start(t, one, u)
	opened := s.trip(t, u, "A", "a")
	u.handle(hang)
	time.Sleep(time.Until(opened.Add(1100 * time.Millisecond)))
	if r := s.abandon("A", "/probe", 100*time.Millisecond); r.status != 0 {
		t.Fatalf("the probe was answered: %v", r)
	}
	left := time.Now()
	if n := u.requests(); n != 4 {
		t.Fatalf("%d requests reached the upstream, want 3 and a probe", n)
	}
	u.handle(ok)
	var r result
	if !poll(1200*time.Millisecond, func() bool {
		r = s.get("A", "/again")
		return r.status == http.StatusOK
	}) {
		t.Fatalf("%s after the caller left, its probe's place is not free: %v", time.Since(left), r)
	}
	s.awaitState(t, "a", "closed", time.Second)
	// Neither a failure, which would have opened again, nor a success, which
	// would have closed before the second probe was sent.
	s.wantTransitions(t, "a", 1, 1, 1)
	s.wantMetric(t, 1, "sidecar_attempts_total", "dependency", "a", "result", "canceled")
	s.wantMetric(t, 1, "sidecar_requests_total", "dependency", "a", "outcome", "canceled")
}

// What happened: the half-open state was checked, but not how many probes were
// under way, so the whole crowd hit a service that had barely recovered.
// Right: one probe, and everyone else is refused at once.
func TestA3_HalfOpenFloodgate(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, ok)
	s := start(t, one, u)
	opened := s.trip(t, u, "A", "a")
	u.handle(func(x *exchange) {
		if x.delay(400 * time.Millisecond) {
			x.respond(200, "ok")
		}
	})
	time.Sleep(time.Until(opened.Add(1100 * time.Millisecond)))
	all := together(50, func(int) result { return s.get("A", "/crowd") })
	if n := u.requests() - 3; n != 1 {
		t.Errorf("%d of 50 calls reached the upstream, want 1 probe", n)
	}
	refused := withStatus(all, http.StatusServiceUnavailable)
	if len(refused) != 49 || len(withStatus(all, http.StatusOK)) != 1 {
		t.Errorf("%d refused and %d answered, want 49 and 1", len(refused), len(withStatus(all, http.StatusOK)))
	}
	for _, r := range refused {
		if r.reason() != "probing" {
			t.Errorf("refused otherwise than for probing: %v", r)
			break
		}
	}
	wantRefusedFast(t, refused)
	s.awaitState(t, "a", "closed", time.Second)
	s.wantMetric(t, 49, "sidecar_rejections_total", "dependency", "a", "reason", "probing")
}

// What happened: a probe that hung, streamed for ever or found no room held
// the half-open state: no verdict came and everyone else was refused.
// Right: a hanging probe fails at attempt_timeout, one whose body still flows
// then is judged by its headers, and one that the bulkhead refused gives its
// place back.
func TestA6_ProbeWithoutAnEnd(t *testing.T) {
	t.Parallel()
	t.Run("hangs", func(t *testing.T) {
		t.Parallel()
		u := newUpstream(t, ok)
		s := start(t, one, u)
		opened := s.trip(t, u, "A", "a")
		u.handle(hang)
		time.Sleep(time.Until(opened.Add(1050 * time.Millisecond)))
		r := s.get("A", "/probe")
		if r.status != http.StatusGatewayTimeout {
			t.Errorf("the hanging probe: %v", r)
		}
		wantTook(t, "the hanging probe", r.took, 500*time.Millisecond)
		s.awaitState(t, "a", "open", time.Second)
		reopened := s.api(t, "a").Breaker.Since
		u.handle(ok)
		time.Sleep(time.Until(reopened.Add(1050 * time.Millisecond)))
		if r := s.get("A", "/probe"); r.status != http.StatusOK {
			t.Errorf("the next probe: %v", r)
		}
		s.wantTransitions(t, "a", 2, 2, 1)
	})
	t.Run("streams", func(t *testing.T) {
		t.Parallel()
		u := newUpstream(t, ok)
		s := start(t, one+"    timeout: 5s\n", u)
		opened := s.trip(t, u, "A", "a")
		u.handle(func(x *exchange) {
			if x.req.URL.Path != "/probe" {
				x.respond(200, "ok")
				return
			}
			x.head(200, "Transfer-Encoding: chunked")
			for x.delay(50 * time.Millisecond) {
				x.chunk("more")
			}
		})
		time.Sleep(time.Until(opened.Add(1050 * time.Millisecond)))
		c := s.dial(t, "A")
		c.get(t, "/probe")
		u.await(t, 4)
		began := time.Now()
		if r := s.get("A", "/during"); r.status != 503 || r.reason() != "probing" {
			t.Errorf("while the probe is undecided: %v", r)
		}
		wantTook(t, "closing under a probe whose body flows", s.awaitState(t, "a", "closed", 2*time.Second).Sub(began), 500*time.Millisecond)
		if r := s.get("A", "/after"); r.status != http.StatusOK {
			t.Errorf("after the probe: %v", r)
		}
		c.leave()
	})
	t.Run("no room", func(t *testing.T) {
		t.Parallel()
		u := newUpstream(t, ok)
		s := start(t, one+`
    timeout: 10s
    bulkhead: {max_concurrent: 3, max_waiting: 0}
`, u)
		// A failure is recorded at its headers; its body holds the permit.
		release := make(chan struct{})
		u.handle(func(x *exchange) {
			x.head(500, "Content-Length: 2")
			if x.until(release) {
				x.write("no")
			}
		})
		done := make(chan []result, 1)
		go func() { done <- together(3, func(int) result { return s.get("A", "/held") }) }()
		opened := s.awaitState(t, "a", "open", 2*time.Second)
		u.handle(ok)
		time.Sleep(time.Until(opened.Add(1050 * time.Millisecond)))
		for range 3 {
			if r := s.get("A", "/probe"); r.status != 503 || r.reason() != "queue_full" {
				t.Errorf("a probe without room: %v", r)
			}
		}
		close(release)
		if all := <-done; len(withStatus(all, 500)) != 3 {
			t.Errorf("the held calls: %v", all)
		}
		if !poll(time.Second, func() bool { return s.get("A", "/probe").status == http.StatusOK }) {
			t.Errorf("with room again, no probe is let through: %+v", s.api(t, "a"))
		}
		s.awaitState(t, "a", "closed", time.Second)
		s.wantTransitions(t, "a", 1, 1, 1)
	})
}
