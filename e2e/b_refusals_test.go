package e2e

import (
	"io"
	"net/http"
	"testing"
	"time"
)

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
