package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// What happened: a strange Retry-After stopped a caller for days, or took the
// pause away.
// Right: whatever it says, the call ends by timeout, and the pause is never
// shorter than the backoff.
func TestSpareStrangeRetryAfter(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(x *exchange) {
		x.respond(http.StatusServiceUnavailable, "no", "Retry-After: "+x.req.Header.Get("X-After"))
	})
	s := start(t, eager+`
dependencies:
  - name: a
    listen: $A
    upstream: http://$U
    timeout: 3s
    bulkhead: {max_concurrent: 20}
    retry: {max_retries: 10, backoff: {base: 100ms, max: 100ms}}
`, u)
	const never, paused = 1, 11 // attempts
	cases := []struct {
		after    string
		attempts int
	}{
		{"999999", never}, {"9223372036854775807", never}, {"99999999999999999999999", never},
		{"Fri, 31 Dec 9999 23:59:59 GMT", never},
		{"0", paused}, {"-1", paused}, {"1.5", paused}, {"soon", paused}, {"", paused}, {"1, 2", paused}, {"0x10", paused},
		{"Thu, 01 Jan 1970 00:00:00 GMT", paused}, {"Sunday, 06-Nov-94 08:49:37 GMT", paused}, {"Sun Nov  6 08:49:37 1994", paused},
	}
	results := together(len(cases), func(i int) result { return s.get("A", fmt.Sprint("/", i), "X-After: "+cases[i].after) })
	made := map[string]int{}
	for n := range u.requests() {
		made[u.exchange(t, n+1).req.URL.Path]++
	}
	for i, tt := range cases {
		r, n := results[i], made[fmt.Sprint("/", i)]
		if r.status != http.StatusServiceUnavailable || r.body != "no" || r.header.Get("Retry-After") != tt.after {
			t.Errorf("Retry-After: %q: %v, %q", tt.after, r, r.header.Get("Retry-After"))
		}
		if n != tt.attempts {
			t.Errorf("Retry-After: %q: %d attempts, want %d", tt.after, n, tt.attempts)
		}
		// Ten pauses of up to 100 ms are shorter together than 100 ms less
		// often than once in a million times.
		if n == paused && r.took < 100*time.Millisecond {
			t.Errorf("Retry-After: %q: ten retries within %s", tt.after, r.took)
		}
		wantWithin(t, "Retry-After: "+tt.after, r.took, 1100*time.Millisecond)
	}
}

// What happened: each retry, or each failed answer, cost a new connection.
// Right: the connection of a failed answer is used again, whatever the framing
// of that answer: never more connections than calls at a time, and a few.
func TestSpareConnectionChurn(t *testing.T) {
	t.Parallel()
	for _, framing := range []string{"length", "chunked", "large"} {
		t.Run(framing, func(t *testing.T) {
			t.Parallel()
			const calls, most, few = 200, 10, 5
			body := "no"
			if framing == "large" {
				body = strings.Repeat("x", 40<<10)
			}
			var mu sync.Mutex
			tried := map[string]bool{}
			u := newUpstream(t, func(x *exchange) {
				mu.Lock()
				first := !tried[x.req.URL.Path]
				tried[x.req.URL.Path] = true
				mu.Unlock()
				switch {
				case !first:
					x.respond(http.StatusOK, "ok")
				case framing == "chunked":
					x.head(http.StatusServiceUnavailable, "Transfer-Encoding: chunked")
					x.chunk(body)
					x.chunk("")
				default:
					x.respond(http.StatusServiceUnavailable, body)
				}
			})
			s := start(t, eager+`
dependencies:
  - {name: a, listen: $A, upstream: http://$U}
`, u)
			together(most, func(worker int) result {
				for i := range calls / most {
					if r := s.get("A", fmt.Sprintf("/%d/%d", worker, i)); r.status != http.StatusOK {
						t.Errorf("%v", r)
					}
				}
				return result{}
			})
			if accepted, _ := u.connections(); accepted > most+few {
				t.Errorf("%d connections for %d calls of which %d ran at a time, want at most %d", accepted, calls, most, most+few)
			}
			if n := u.requests(); n != 2*calls {
				t.Errorf("%d requests, want %d", n, 2*calls)
			}
		})
	}
}

// What happened: failures that were hours apart opened the circuit, because
// nothing forgot them.
// Right: an outcome counts no longer than the window's duration.
func TestSpareSparseFailures(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, fails(http.StatusInternalServerError))
	s := start(t, `
defaults:
  breaker: {window: 600ms, min_calls: 3, failure_ratio: 0.5, cooldown: 1s, jitter: 0}
dependencies:
  - {name: a, listen: $A, upstream: http://$U}
`, u)
	for range 10 {
		if r := s.get("A", "/"); r.status != http.StatusInternalServerError {
			t.Fatalf("a sparse failure: %v", r)
		}
		time.Sleep(350 * time.Millisecond)
	}
	s.wantTransitions(t, "a", 0, 0, 0)
	for range 3 {
		s.get("A", "/")
	}
	s.awaitState(t, "a", "open", time.Second)
}

// What happened: a call that waited for its next attempt gave its place away,
// and more calls than allowed came back to the upstream at once.
// Right: the permit is held in backoff, so never more than max_concurrent run
// or wait to run again; the others queue or are refused.
func TestSparePermitInBackoff(t *testing.T) {
	t.Parallel()
	const most = 3
	u := newUpstream(t, func(x *exchange) {
		if x.delay(30 * time.Millisecond) {
			x.respond(http.StatusServiceUnavailable, "no")
		}
	})
	s := start(t, eager+`
dependencies:
  - name: a
    listen: $A
    upstream: http://$U
    bulkhead: {max_concurrent: 3, max_waiting: 3, queue_timeout: 5s}
    retry: {max_retries: 4, backoff: {base: 100ms, max: 100ms}}
  - name: b
    listen: $B
    upstream: http://$U
    bulkhead: {max_concurrent: 1, max_waiting: 0}
    retry: {max_retries: 1}
    failure: {statuses: ["503"]}
`, u)
	results := together(20, func(i int) result { return s.get("A", fmt.Sprint("/", i)) })
	own := only(results, func(r result) bool { return r.status == http.StatusServiceUnavailable && r.body == "no" })
	full := only(results, func(r result) bool { return r.reason() == "queue_full" })
	if len(own) != 2*most || len(full) != 20-2*most {
		t.Errorf("%d calls got the upstream's answer, %d were refused; want %d and %d", len(own), len(full), 2*most, 20-2*most)
	}
	if n := u.peak(); n > most {
		t.Errorf("%d requests ran at a time, want at most %d", n, most)
	}

	u.handle(func(x *exchange) {
		if x.req.URL.Path == "/waits" {
			x.respond(http.StatusServiceUnavailable, "no", "Retry-After: 1")
			return
		}
		ok(x)
	})
	seen := u.requests()
	waits := make(chan result, 1)
	go func() { waits <- s.get("B", "/waits") }()
	u.await(t, seen+1)
	time.Sleep(100 * time.Millisecond)
	if r := s.get("B", "/other"); r.reason() != "queue_full" {
		t.Errorf("beside a call in backoff: %v, want queue_full", r)
	}
	if r := <-waits; r.status != http.StatusServiceUnavailable || r.body != "no" {
		t.Errorf("the call in backoff: %v", r)
	}
	if r := s.get("B", "/other"); r.status != http.StatusOK {
		t.Errorf("after the call in backoff: %v", r)
	}
}

// What happened: a call went on retrying after the circuit had opened.
// Right: once it opens, remaining retries stop; the caller gets the answer
// that the upstream gave last, and the denial is counted.
func TestSpareOpensInBackoff(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(x *exchange) {
		if x.req.URL.Path == "/waits" {
			x.respond(http.StatusServiceUnavailable, "own answer", "Retry-After: 1")
			return
		}
		x.respond(http.StatusInternalServerError, "no")
	})
	s := start(t, base+`
dependencies:
  - name: a
    listen: $A
    upstream: http://$U
    timeout: 10s
    breaker: {cooldown: 10s}
    retry: {max_retries: 5, budget: {min_per_second: 1000}}
    routes: [{match: {path: /trip}, retry: {max_retries: 0}}]
`, u)
	waits := make(chan result, 1)
	go func() { waits <- s.get("A", "/waits") }()
	u.await(t, 1)
	for range 2 { // with that of the call that waits, three in a row
		s.get("A", "/trip")
	}
	s.awaitState(t, "a", "open", time.Second)
	r := <-waits
	if r.status != http.StatusServiceUnavailable || r.body != "own answer" || r.header.Get("Proxy-Status") != "" {
		t.Errorf("the call in backoff: %v, %v, want the upstream's own answer", r, r.header)
	}
	wantWithin(t, "the call in backoff", r.took, time.Second+tolerance)
	if n := u.requests(); n != 3 {
		t.Errorf("%d requests, want 3", n)
	}
	s.wantMetric(t, 1, "sidecar_retries_denied_total", "dependency", "a", "reason", "breaker")
	s.wantMetric(t, 0, "sidecar_retries_total", "dependency", "a")
}
