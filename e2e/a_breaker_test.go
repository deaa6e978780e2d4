package e2e

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// trip makes an upstream fail until a dependency's circuit opens, and returns
// when it opened.
func (s *sidecar) trip(t *testing.T, u *upstream, port, name string) time.Time {
	t.Helper()
	u.handle(fails(http.StatusInternalServerError))
	for range 3 {
		if r := s.get(port, "/trip"); r.status != http.StatusInternalServerError {
			t.Fatalf("a failing call: %v", r)
		}
	}
	b := s.api(t, name).Breaker
	if b.State != "open" {
		t.Fatalf("after 3 failures the circuit is %s", b.State)
	}
	return b.Since
}

// wantTransitions compares how often a dependency's circuit went to each
// state.
func (s *sidecar) wantTransitions(t *testing.T, name string, open, halfOpen, closed float64) {
	t.Helper()
	for to, want := range map[string]float64{"open": open, "half_open": halfOpen, "closed": closed} {
		s.wantMetric(t, want, "sidecar_breaker_transitions_total", "dependency", name, "to", to)
	}
}

// What happened: calls that hang never end, so they were never counted and the
// circuit stayed closed in front of a dead dependency.
// Right: our own timeouts are failures, before the headers, among them and in
// the body; answers that come too late are slow, even to callers who have left.
func TestA2_HungCallsCount(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(x *exchange) {
		switch x.req.URL.Path {
		case "/body":
			x.head(200, "Content-Length: 10")
			x.hang()
		case "/trickle":
			for _, c := range "HTTP/1.1 200 OK\r\nX-Long: " + strings.Repeat("x", 1000) {
				if !x.delay(20*time.Millisecond) || !x.write(string(c)) {
					return
				}
			}
		case "/hints":
			for x.delay(20 * time.Millisecond) {
				x.head(103, "Link: </style.css>; rel=preload")
			}
		case "/late":
			if x.delay(400 * time.Millisecond) {
				x.respond(200, "ok")
			}
		default:
			x.hang()
		}
	})
	s := start(t, base+`
dependencies:
  - {name: headers, listen: $HEADERS, upstream: http://$U}
  - {name: trickle, listen: $TRICKLE, upstream: http://$U}
  - {name: hints, listen: $HINTS, upstream: http://$U}
  - {name: body, listen: $BODY, upstream: http://$U, timeout: 600ms}
  - {name: late, listen: $LATE, upstream: http://$U, attempt_timeout: 2s, breaker: {min_calls: 3, slow_call: {after: 200ms, ratio: 1}}}
  - {name: left, listen: $LEFT, upstream: http://$U, attempt_timeout: 2s, breaker: {min_calls: 3, slow_call: {after: 200ms, ratio: 1}}}
`, u)
	for _, tt := range []struct {
		name   string
		call   func(port string) result
		status int
		took   time.Duration
		reason string
	}{
		{"headers", func(port string) result { return s.get(port, "/") }, 504, 500 * time.Millisecond, "3 failures in a row"},
		{"trickle", func(port string) result { return s.get(port, "/trickle") }, 504, 500 * time.Millisecond, "3 failures in a row"},
		{"hints", func(port string) result { return s.get(port, "/hints") }, 504, 500 * time.Millisecond, "3 failures in a row"},
		{"body", func(port string) result { return s.get(port, "/body") }, 200, 600 * time.Millisecond, "3 failures in a row"},
		{"late", func(port string) result { return s.get(port, "/late") }, 200, 400 * time.Millisecond, "3 of 3 calls slower than 200ms"},
		{"left", func(port string) result { return s.abandon(port, "/", 300*time.Millisecond) }, 0, 300 * time.Millisecond, "3 of 3 calls slower than 200ms"},
	} {
		port := strings.ToUpper(tt.name)
		for _, r := range together(3, func(int) result { return tt.call(port) }) {
			if r.status != tt.status || (r.err == nil) != (tt.name != "body" && tt.name != "left") {
				t.Errorf("%s: %v", tt.name, r)
			}
			wantTook(t, tt.name, r.took, tt.took)
		}
		s.awaitState(t, tt.name, "open", time.Second)
		if got := s.api(t, tt.name).Breaker.Reason; got != tt.reason {
			t.Errorf("%s opened because %q, want %q", tt.name, got, tt.reason)
		}
		if r := s.get(port, "/"); r.status != 503 || r.reason() != "open" {
			t.Errorf("%s: the next call: %v", tt.name, r)
		}
	}
}

// What happened: outcomes of before a change of state were counted after it:
// the window survived the recovery, and late answers to old calls went into
// it.
// Right: a circuit that closed begins with an empty window, and a result that
// belongs to an earlier era changes nothing.
func TestA4_OutcomesOfAnEarlierEra(t *testing.T) {
	t.Parallel()
	late := make(chan struct{})
	u := newUpstream(t, ok)
	s := start(t, one+`
    attempt_timeout: 5s
    timeout: 5s
`, u)
	u.handle(func(x *exchange) {
		if x.until(late) {
			x.respond(500, "late")
		}
	})
	old := make(chan result, 1)
	go func() { old <- s.get("A", "/old") }()
	u.await(t, 1)
	opened := s.trip(t, u, "A", "a")
	time.Sleep(time.Until(opened.Add(1100 * time.Millisecond)))
	u.handle(ok)
	if r := s.get("A", "/probe"); r.status != http.StatusOK {
		t.Fatalf("the probe: %v", r)
	}
	s.awaitState(t, "a", "closed", time.Second)
	if w := s.api(t, "a").Breaker.Window; w.Calls != 0 || w.Failures != 0 {
		t.Errorf("the window after the recovery: %+v, want it empty", w)
	}
	u.handle(fails(500))
	s.get("A", "/first")
	s.get("A", "/second")
	close(late)
	if r := <-old; r.status != 500 {
		t.Errorf("the old call: %v", r)
	}
	s.wantMetric(t, 6, "sidecar_attempts_total", "dependency", "a", "result", "status")
	if b := s.api(t, "a").Breaker; b.State != "closed" || b.Window.Failures != 2 {
		t.Errorf("the circuit is %s with %d failures, want closed with 2: the old call's came late", b.State, b.Window.Failures)
	}
	s.get("A", "/third")
	s.awaitState(t, "a", "open", time.Second)
	s.wantTransitions(t, "a", 2, 1, 1)
}

// What happened: impatient callers, and answers that say the caller is wrong,
// opened the circuit.
// Right: neither is the upstream's fault. A 4xx goes through as it came, is
// not retried and not replaced. 429 is a failure where the operator says so.
func TestA5_NotTheUpstreamsFault(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(x *exchange) {
		if status, err := strconv.Atoi(x.req.URL.Path[1:]); err == nil {
			x.respond(status, "as it came", "X-Own: yes")
		} else if x.delay(400 * time.Millisecond) {
			x.respond(200, "ok")
		}
	})
	s := start(t, base+`
dependencies:
  - name: a
    listen: $A
    upstream: http://$U
    retry: {max_retries: 3}
    fallback: [{static: {body: made up}}]
  - {name: b, listen: $B, upstream: http://$U, failure: {statuses: ["429"]}}
`, u)
	impatient := make([]*rawCaller, 20) // connected first: they leave calls, not connects
	for i := range impatient {
		impatient[i] = s.dial(t, "A")
		impatient[i].send(t, "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
	}
	time.Sleep(50 * time.Millisecond)
	for _, c := range impatient {
		c.leave()
	}
	s.wantMetric(t, 20, "sidecar_requests_total", "dependency", "a", "outcome", "canceled")
	before := u.requests()
	for _, status := range []int{404, 401, 429} {
		for range 20 {
			r := s.get("A", "/"+strconv.Itoa(status))
			if r.status != status || r.body != "as it came" || r.header.Get("X-Own") != "yes" || r.header.Get("Proxy-Status") != "" {
				t.Fatalf("%d came as %v with %v", status, r, r.header)
			}
		}
	}
	if n := u.requests() - before; n != 60 {
		t.Errorf("60 calls made %d requests", n)
	}
	s.wantMetric(t, 60, "sidecar_requests_total", "dependency", "a", "outcome", "ok")
	s.wantMetric(t, 0, "sidecar_fallbacks_total", "dependency", "a")
	s.wantMetric(t, 0, "sidecar_retries_total", "dependency", "a")
	s.wantTransitions(t, "a", 0, 0, 0)
	if b := s.api(t, "a").Breaker; b.State != "closed" || b.Window.Failures != 0 {
		t.Errorf("the circuit is %s with %d failures, want closed with none", b.State, b.Window.Failures)
	}
	for range 3 {
		if r := s.get("B", "/429"); r.status != 429 {
			t.Fatalf("429 came as %v", r)
		}
	}
	s.awaitState(t, "b", "open", time.Second)
}

// What happened: with the circuit open callers got an empty 200, though
// nothing had been called.
// Right: 503 with a Retry-After of at least one second, to every method.
func TestA9_OpenMustNotLookLikeSuccess(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, ok)
	s := start(t, one, u)
	s.trip(t, u, "A", "a")
	var all []result
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodHead} {
		c := s.dial(t, "A")
		c.send(t, method+" /x HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		r := c.response(method)
		after, err := strconv.Atoi(r.header.Get("Retry-After"))
		if r.err != nil || r.status != http.StatusServiceUnavailable || err != nil || after < 1 {
			t.Errorf("%s: %v, Retry-After %q", method, r, r.header.Get("Retry-After"))
		}
		if want := `sidecar; error=destination_unavailable; details="open"`; r.header.Get("Proxy-Status") != want {
			t.Errorf("%s: Proxy-Status %q, want %q", method, r.header.Get("Proxy-Status"), want)
		}
		if rest, _ := io.ReadAll(c.in); len(rest) > 0 || (r.body == "") != (method == http.MethodHead) {
			t.Errorf("%s: body %q, then %q", method, r.body, rest)
		}
		all = append(all, r)
	}
	wantRefusedFast(t, all)
	if n := u.requests(); n != 3 {
		t.Errorf("%d requests reached the upstream, want the 3 that opened the circuit", n)
	}
	s.wantMetric(t, 3, "sidecar_rejections_total", "dependency", "a", "reason", "open")
	s.wantMetric(t, 3, "sidecar_requests_total", "dependency", "a", "outcome", "rejected")
}
