package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// wantIdle waits until a dependency's bulkhead holds and queues nothing.
func (s *sidecar) wantIdle(t *testing.T, name string, within time.Duration) {
	t.Helper()
	var b state
	if !poll(within, func() bool {
		b = s.api(t, name)
		return b.Bulkhead.InUse == 0 && b.Bulkhead.Waiting == 0
	}) {
		t.Errorf("%d permits and %d waiting places of %s are still taken", b.Bulkhead.InUse, b.Bulkhead.Waiting, name)
	}
}

// What happened: the queue filled with calls whose callers had left, and they
// were sent to the upstream all the same.
// Right: a waiter whose caller left goes at once and never runs, whether or
// not its request has a body that nobody has read yet.
func TestB2_ZombieWaiters(t *testing.T) {
	t.Parallel()
	for name, request := range map[string]string{
		"GET":  "GET /queued HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"POST": "POST /queued HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\n12345",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			zombies(t, request)
		})
	}
}

func zombies(t *testing.T, request string) {
	u := newUpstream(t, func(x *exchange) {
		if x.delay(2 * time.Second) {
			x.respond(200, "ok")
		}
	})
	s := start(t, one+`
    attempt_timeout: 3s
    timeout: 9s
    bulkhead: {max_concurrent: 1, max_waiting: 5, queue_timeout: 5s}
`, u)
	runner := make(chan time.Time, 1)
	go func() {
		if r := s.get("A", "/runner"); r.status != http.StatusOK {
			t.Errorf("the runner: %v", r)
		}
		runner <- time.Now()
	}()
	u.await(t, 1)
	var queued []*rawCaller
	for range 5 {
		c := s.dial(t, "A")
		c.send(t, request)
		queued = append(queued, c)
	}
	if !poll(time.Second, func() bool { return s.api(t, "a").Bulkhead.Waiting == 5 }) {
		t.Fatalf("%d calls wait, want 5", s.api(t, "a").Bulkhead.Waiting)
	}
	if r := s.get("A", "/full"); r.status != http.StatusServiceUnavailable || r.reason() != "queue_full" {
		t.Errorf("with the queue full: %v", r)
	}
	left := time.Now()
	for _, c := range queued {
		c.leave()
	}
	if poll(time.Second, func() bool { return s.metrics(t).sum(t, "sidecar_bulkhead_waiting", "dependency", "a") == 0 }) {
		wantWithin(t, "emptying the queue", time.Since(left), 200*time.Millisecond)
	} else {
		t.Errorf("the queue still holds the calls of callers who left")
	}
	ended := <-runner
	live := s.get("A", "/live")
	if live.status != http.StatusOK {
		t.Errorf("the live call: %v", live)
	}
	wantTook(t, "from the runner's end to the live call's", live.sent.Add(live.took).Sub(ended), 2*time.Second)
	if n := u.requests(); n != 2 {
		t.Errorf("%d requests reached the upstream, want the runner's and the live one", n)
	}
	s.wantMetric(t, 5, "sidecar_requests_total", "dependency", "a", "outcome", "canceled")
}

// What happened: a permit was given back at the response headers, so far more
// bodies than max_concurrent flowed at once.
// Right: it is held until the last byte has gone, or the caller.
func TestB3_PermitHeldToTheLastByte(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(x *exchange) {
		x.head(200, "Transfer-Encoding: chunked")
		for range 15 {
			x.chunk("part")
			if !x.delay(100 * time.Millisecond) {
				return
			}
		}
		x.chunk("")
	})
	s := start(t, one+`
    timeout: 9s
    bulkhead: {max_concurrent: 2, queue_timeout: 5s}
`, u)
	for _, r := range together(4, func(int) result { return s.get("A", "/") }) {
		if r.status != http.StatusOK || r.err != nil || r.body != strings.Repeat("part", 15) {
			t.Errorf("a body of parts: %v", r)
		}
	}
	if peak := u.peak(); peak != 2 {
		t.Errorf("%d bodies flowed at once, want 2", peak)
	}

	// A caller that leaves in the middle of a body frees its permit.
	c := s.dial(t, "A")
	c.get(t, "/left")
	x := u.exchange(t, 5)
	if !poll(time.Second, func() bool { return s.api(t, "a").Bulkhead.InUse == 1 }) {
		t.Errorf("a flowing body holds no permit")
	}
	left := time.Now()
	c.leave()
	s.wantIdle(t, "a", time.Second)
	wantWithin(t, "freeing the permit", time.Since(left), 200*time.Millisecond)
	if !poll(time.Second, func() bool { return !x.goneAt().IsZero() }) {
		t.Errorf("the upstream still sends to a caller who left")
	}
	s.wantMetric(t, 0, "sidecar_bulkhead_in_use", "dependency", "a")
}

// What happened: calls were refused with room left in the queue, or a setting
// of 0 blocked everything.
// Right: exactly max_concurrent + max_waiting are taken in, 0 waiting places
// mean none, and a wait ends at queue_timeout.
func TestB4_QueueArithmetic(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(x *exchange) {
		length := 300 * time.Millisecond
		if x.req.URL.Path == "/long" {
			length = 900 * time.Millisecond
		}
		if x.delay(length) {
			x.respond(200, "ok")
		}
	})
	s := start(t, base+`
dependencies:
  - {name: three, listen: $THREE, upstream: http://$U, bulkhead: {max_concurrent: 3, max_waiting: 3}}
  - {name: none, listen: $NONE, upstream: http://$U, bulkhead: {max_concurrent: 3, max_waiting: 0}}
  - {name: long, listen: $LONG, upstream: http://$U, attempt_timeout: 2s, bulkhead: {max_concurrent: 1, max_waiting: 1}}
`, u)
	for _, tt := range []struct {
		port       string
		calls, run int
	}{{"THREE", 7, 6}, {"NONE", 4, 3}} {
		all := together(tt.calls, func(int) result { return s.get(tt.port, "/") })
		refused := withStatus(all, http.StatusServiceUnavailable)
		if len(withStatus(all, http.StatusOK)) != tt.run || len(refused) != 1 {
			t.Errorf("%s: %d calls gave %v, want %d answers and 1 refusal", tt.port, tt.calls, all, tt.run)
			continue
		}
		if refused[0].reason() != "queue_full" || refused[0].header.Get("Retry-After") != "1" {
			t.Errorf("%s: the refusal: %v, Retry-After %q", tt.port, refused[0], refused[0].header.Get("Retry-After"))
		}
		wantRefusedFast(t, refused)
	}
	if peak := u.peak(); peak != 3 {
		t.Errorf("%d calls ran at once, want 3", peak)
	}
	before := u.requests()
	all := together(2, func(int) result { return s.get("LONG", "/long") })
	waited := withStatus(all, http.StatusServiceUnavailable)
	if len(withStatus(all, http.StatusOK)) != 1 || len(waited) != 1 || waited[0].reason() != "queue_timeout" {
		t.Fatalf("one call runs past another's queue_timeout: %v", all)
	}
	wantTook(t, "the wait", waited[0].took, 500*time.Millisecond)
	if n := u.requests() - before; n != 1 {
		t.Errorf("%d requests reached the upstream, want 1", n)
	}
	s.wantMetric(t, 1, "sidecar_rejections_total", "dependency", "three", "reason", "queue_full")
	s.wantMetric(t, 1, "sidecar_rejections_total", "dependency", "none", "reason", "queue_full")
	s.wantMetric(t, 1, "sidecar_rejections_total", "dependency", "long", "reason", "queue_timeout")
}
