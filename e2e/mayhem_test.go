package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// Everything at once, at random: whatever callers and upstream do, the
// compartment holds, every call is counted once, no attempt is made that is
// not counted, and nothing is left behind.
func TestMayhem(t *testing.T) {
	const (
		callers = 24
		length  = 1500 * time.Millisecond
	)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	paths := []string{"/", "/", "/", "/503", "/reset", "/close", "/garbage", "/half", "/chunk", "/stall", "/hang", "/events", "/lost-events"}
	u := newUpstream(t, func(x *exchange) {
		switch x.req.URL.Path {
		case "/":
			x.respond(200, "ok")
		case "/503":
			x.respond(503, "no")
		default:
			unusual(x)
		}
	})
	s := start(t, base+`
dependencies:
  - name: a
    listen: $A
    upstream: http://$U
    attempt_timeout: 50ms
    timeout: 120ms
    breaker: {window: 20, min_calls: 10, failure_ratio: 0.9, consecutive_failures: 0, cooldown: 50ms, ramp: 50ms}
    bulkhead: {max_concurrent: 5, max_waiting: 5, queue_timeout: 20ms}
    retry: {max_retries: 2, backoff: {base: 5ms, max: 20ms}, budget: {min_per_second: 100}}
    fallback: [{static: {body: made up}}]
`, u)
	var all sync.WaitGroup
	var mu sync.Mutex
	calls := 0
	ends := time.Now().Add(length)
	for i := range callers {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		all.Go(func() {
			for time.Now().Before(ends) {
				path := paths[random.IntN(len(paths))]
				c := s.dial(t, "A")
				mu.Lock()
				calls++
				mu.Unlock()
				if random.IntN(3) == 0 {
					body := strings.Repeat("x", random.IntN(3000))
					c.send(t, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: a.test\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body))
				} else {
					c.get(t, path)
				}
				if random.IntN(3) == 0 || path == "/events" {
					time.Sleep(time.Duration(random.IntN(60)) * time.Millisecond)
					if random.IntN(2) == 0 {
						c.reset()
					}
				} else if r := c.response(http.MethodGet); r.took > time.Second {
					t.Errorf("no end for a second: %v", r)
				}
				c.leave()
			}
		})
	}
	all.Wait()
	s.wantIdle(t, "a", 2*time.Second)
	if peak := u.peak(); peak > 5 {
		t.Errorf("%d calls were at the upstream at once, max_concurrent is 5", peak)
	}
	// A caller that leaves before its request is read makes no call.
	m := s.metrics(t)
	counted := int(m.sum(t, "sidecar_requests_total", "dependency", "a"))
	if counted > calls || counted < calls*8/10 {
		t.Errorf("%d calls were counted of %d made", counted, calls)
	}
	if n := int(m.sum(t, "sidecar_requests_total", "dependency", "a", "outcome", "rejected")) +
		int(m.sum(t, "sidecar_requests_total", "dependency", "a", "outcome", "fallback")); n == 0 || n == counted {
		t.Errorf("%d of %d calls were degraded: this is no mayhem", n, counted)
	}
	attempts := int(m.sum(t, "sidecar_attempts_total", "dependency", "a"))
	unseen := int(m.sum(t, "sidecar_attempts_total", "dependency", "a", "result", "canceled"))
	if seen := u.requests(); seen > attempts || seen < attempts-unseen {
		t.Errorf("the upstream saw %d requests; %d attempts were counted, %d of them given up", seen, attempts, unseen)
	}
	for _, d := range []string{"in_use", "waiting"} {
		s.wantMetric(t, 0, "sidecar_bulkhead_"+d, "dependency", "a")
	}
	t.Logf("%d calls, %d attempts, circuit opened %v times", calls, attempts,
		m.sum(t, "sidecar_breaker_transitions_total", "dependency", "a", "to", "open"))
}
