package e2e

import (
	"io"
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

// What happened: a compartment that was full counted as failures of the
// dependency, or its refusals were retried and multiplied themselves.
// Right: a refusal is nothing to the breaker and is never retried.
func TestB6_OwnRefusalsPoisonTheBreaker(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(x *exchange) {
		if x.delay(time.Second) {
			x.respond(200, "ok")
		}
	})
	s := start(t, one+`
    attempt_timeout: 2s
    timeout: 3s
    bulkhead: {max_concurrent: 1, max_waiting: 0}
    retry: {max_retries: 3, "on": ["503"]}
`, u)
	all := together(30, func(int) result { return s.get("A", "/") })
	refused := withStatus(all, http.StatusServiceUnavailable)
	if len(withStatus(all, http.StatusOK)) != 1 || len(refused) != 29 {
		t.Errorf("30 calls gave %v, want 1 answer and 29 refusals", all)
	}
	wantRefusedFast(t, refused)
	if n := u.requests(); n != 1 {
		t.Errorf("%d requests reached the upstream, want 1", n)
	}
	if b := s.api(t, "a").Breaker; b.State != "closed" || b.Window.Failures != 0 {
		t.Errorf("the circuit is %s with %d failures, want closed with none", b.State, b.Window.Failures)
	}
	s.wantMetric(t, 29, "sidecar_rejections_total", "dependency", "a", "reason", "queue_full")
	s.wantMetric(t, 0, "sidecar_retries_total", "dependency", "a")
	s.wantMetric(t, 0, "sidecar_retries_denied_total", "dependency", "a")
	s.wantTransitions(t, "a", 0, 0, 0)
}

// What happened: a call was refused, but its answer was held back until the
// caller had sent its whole body, which a slow upload never does.
// Right: a refusal takes under 50 ms, whatever the caller still has to send,
// and its connection is not used for what comes after.
func TestB7_RefusalWaitsForNoBody(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, hang)
	s := start(t, base+`
dependencies:
  - {name: open, listen: $OPEN, upstream: http://$U, attempt_timeout: 100ms, breaker: {cooldown: 30s}}
  - {name: full, listen: $FULL, upstream: http://$U, timeout: 20s, attempt_timeout: 20s, bulkhead: {max_concurrent: 1, max_waiting: 0}}
  - {name: waits, listen: $WAITS, upstream: http://$U, timeout: 20s, attempt_timeout: 20s, bulkhead: {max_concurrent: 1, queue_timeout: 100ms}}
  - {name: large, listen: $LARGE, upstream: http://$U, max_request_bytes: 100B}
  - name: made-up
    listen: $MADEUP
    upstream: http://$U
    attempt_timeout: 100ms
    breaker: {cooldown: 30s}
    routes: [{match: {methods: [POST]}, fallback: [{static: {body: made up}}]}]
`, u)
	for _, port := range []string{"OPEN", "MADEUP"} {
		together(3, func(int) result { return s.get(port, "/") })
	}
	for _, port := range []string{"FULL", "WAITS"} {
		c, seen := s.dial(t, port), u.requests()
		c.get(t, "/holds")
		u.await(t, seen+1)
	}
	seen := u.requests()
	for _, tt := range []struct {
		port   string
		status int
		most   time.Duration
	}{{"OPEN", 503, refusal}, {"FULL", 503, refusal}, {"WAITS", 503, 100*time.Millisecond + refusal}, {"LARGE", 413, refusal}, {"MADEUP", 200, refusal}} {
		c := s.dial(t, tt.port)
		_ = c.conn.SetDeadline(time.Now().Add(800 * time.Millisecond))
		c.send(t, "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000\r\n\r\nbegun")
		r := c.response(http.MethodPost)
		if r.status != tt.status {
			t.Errorf("%s: a refused upload got %v, want %d", tt.port, r, tt.status)
			continue
		}
		wantWithin(t, tt.port, r.took, tt.most)
		if rest, err := io.ReadAll(c.in); len(rest) > 0 || err != nil {
			t.Errorf("%s: the connection goes on with %q, %v", tt.port, rest, err)
		}
	}
	if n := u.requests() - seen; n != 0 {
		t.Errorf("%d refused calls reached the upstream", n)
	}
}

// What happened: calls went on waiting for a dependency whose circuit had
// opened meanwhile, to be refused at the end of their wait, or sent.
// Right: they are answered the moment it opens, though no permit is free.
func TestB8_WaitersOfAnOpenCircuit(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	u := newUpstream(t, func(x *exchange) {
		if !x.delay(300 * time.Millisecond) {
			return
		}
		// A failure is recorded at its headers; its body holds the permit.
		x.head(500, "Content-Length: 2")
		if x.until(release) {
			x.write("no")
		}
	})
	s := start(t, one+`
    timeout: 9s
    breaker: {consecutive_failures: 1, cooldown: 30s}
    bulkhead: {max_concurrent: 1, max_waiting: 10, queue_timeout: 5s}
`, u)
	done := make(chan result, 1)
	go func() { done <- s.get("A", "/runs") }()
	x := u.exchange(t, 1)
	all := together(10, func(int) result { return s.get("A", "/waits") })
	for _, r := range all {
		if r.status != http.StatusServiceUnavailable || r.reason() != "open" {
			t.Errorf("a waiter: %v, want it refused for open", r)
		}
		wantTook(t, "a waiter's answer", r.sent.Add(r.took).Sub(x.start), 300*time.Millisecond)
	}
	close(release)
	if r := <-done; r.status != http.StatusInternalServerError || r.body != "no" {
		t.Errorf("the call that ran: %v", r)
	}
	if n := u.requests(); n != 1 {
		t.Errorf("%d requests reached the upstream, want 1", n)
	}
}
