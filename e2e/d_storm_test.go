package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// What happened: each failing call became four, and the retries kept down an
// upstream that would have recovered.
// Right: in any second the retries begun are at most budget.ratio of the calls
// begun, or min_per_second where that is more. What is denied is counted, and
// its caller gets the upstream's own answer.
func TestD3_RetryStorm(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, fails(http.StatusServiceUnavailable))
	s := start(t, eager+`
dependencies:
  - {name: busy, listen: $BUSY, upstream: http://$U, bulkhead: {max_concurrent: 100, max_waiting: 100}, retry: {budget: {ratio: 0.2, min_per_second: 3}}}
  - {name: quiet, listen: $QUIET, upstream: http://$U, retry: {budget: {ratio: 0, min_per_second: 3}}}
`, u)
	for port, tt := range map[string]struct{ rate, most float64 }{"BUSY": {100, 20}, "QUIET": {20, 3}} {
		name := strings.ToLower(port)
		first := u.requests()
		calls := startLoad(int(tt.rate), 2500*time.Millisecond, func(i int) result { return s.get(port, fmt.Sprintf("/%s/%d", name, i)) }).wait()
		if n := len(withStatus(calls, http.StatusServiceUnavailable)); n != len(calls) {
			t.Errorf("%s: %d of %d calls got the upstream's 503", name, n, len(calls))
		}
		begun := map[string]bool{}
		var retries []time.Time
		for n := first; n < u.requests(); n++ {
			x := u.exchange(t, n+1)
			if path := x.req.URL.Path; begun[path] {
				retries = append(retries, x.start)
			} else {
				begun[path] = true
			}
		}
		slices.SortFunc(retries, time.Time.Compare)
		most, from := 0, 0
		for i, at := range retries {
			for !retries[from].After(at.Add(-time.Second)) {
				from++
			}
			most = max(most, i-from+1)
		}
		// They are seen some time after they began, by which more may seem to
		// be within one second.
		allowed := tt.most * (1 + (tolerance + noise(calls[0].sent)).Seconds())
		if float64(most) > allowed+1 {
			t.Errorf("%s: %d retries within a second, want at most %.0f", name, most, tt.most)
		}
		if len(retries) < int(tt.most) {
			t.Errorf("%s: %d retries in all: the budget was not used", name, len(retries))
		}
		s.wantMetric(t, float64(len(retries)), "sidecar_retries_total", "dependency", name)
		s.wantMetric(t, float64(len(begun)+len(retries)), "sidecar_attempts_total", "dependency", name)
		// Every call ended with a retry denied, unless it got all three.
		denied := s.metrics(t).sum(t, "sidecar_retries_denied_total", "dependency", name, "reason", "budget")
		if lucky := float64(len(calls)) - denied; lucky < 0 || 3*lucky > float64(len(retries)) {
			t.Errorf("%s: of %d calls %v were denied a retry, with %d retries made", name, len(calls), denied, len(retries))
		}
	}
}

// reaper closes connections that were idle for a second.
type reaper struct {
	mu   sync.Mutex // guards everything below
	uses map[net.Conn]int
}

func (r *reaper) begin(c net.Conn) (use int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.uses[c]++
	return r.uses[c]
}

func (r *reaper) idle(c net.Conn, use int) {
	time.AfterFunc(time.Second, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.uses[c] == use {
			_ = c.Close()
		}
	})
}

// What happened: a healthy upstream that closes idle connections made a trickle
// of 502, because a request went out on one that was just being closed.
// Right: with one retry an idempotent call never fails by that. A POST may,
// but runs at most once.
func TestD4_IdleKeepAliveRace(t *testing.T) {
	t.Parallel()
	const rounds, pairs = 2, 100
	rest := reaper{uses: map[net.Conn]int{}}
	var mu sync.Mutex
	runs := map[string]int{}
	u := newUpstream(t, func(x *exchange) {
		use := rest.begin(x.conn)
		if use > 1 && x.req.URL.Path == "/closing" {
			x.reset() // as if it had been closed a moment before
			return
		}
		mu.Lock()
		runs[x.req.URL.Path]++
		mu.Unlock()
		if strings.HasSuffix(x.req.URL.Path, "/first") {
			x.delay(300 * time.Millisecond) // so that each call has its own connection
		}
		x.respond(http.StatusOK, "ok")
		rest.idle(x.conn, use)
	})
	s := start(t, base+`
dependencies:
  - name: a
    listen: $A
    upstream: http://$U
    breaker: {consecutive_failures: 0, window: 200, min_calls: 200}
    bulkhead: {max_concurrent: 300, queue_timeout: 2s}
    attempt_timeout: 2s
    retry: {max_retries: 1}
`, u)
	methods := []string{http.MethodGet, http.MethodPost}
	lost := 0
	steady := startLoad(50, patience, func(int) result { return s.get("A", "/steady") })
	for round := range rounds {
		results := together(2*pairs, func(i int) result {
			time.Sleep(time.Duration(i) * 5 * time.Millisecond) // else the window would hold little but these
			method := methods[i%2]
			path := fmt.Sprintf("/%d/%d", round, i)
			if r := s.do(context.Background(), method, "A", path+"/first", nil); r.status != http.StatusOK {
				return r
			}
			time.Sleep(time.Second - 5*time.Millisecond + rand.N(10*time.Millisecond))
			return s.do(context.Background(), method, "A", path, nil)
		})
		for i, r := range results {
			switch {
			case r.status == http.StatusOK:
			case r.status == http.StatusBadGateway && methods[i%2] == http.MethodPost:
				lost++
			default:
				t.Errorf("%s: %v", methods[i%2], r)
			}
			path := fmt.Sprintf("/%d/%d", round, i)
			mu.Lock()
			if methods[i%2] == http.MethodPost && runs[path] > 1 {
				t.Errorf("POST %s ran %d times", path, runs[path])
			}
			mu.Unlock()
		}
	}
	steady.stop()
	if all := steady.wait(); len(withStatus(all, http.StatusOK)) != len(all) {
		t.Errorf("of %d other calls %d were answered", len(all), len(withStatus(all, http.StatusOK)))
	}
	// A real one is met by chance alone.
	for _, method := range methods {
		s.get("A", "/warm")
		r := s.do(context.Background(), method, "A", "/closing", nil)
		if want := map[string]int{http.MethodGet: 200, http.MethodPost: 502}[method]; r.status != want {
			t.Errorf("%s on a connection that was being closed: %v, want %d", method, r, want)
		}
	}
	t.Logf("%d POSTs met a closing connection, %v retries", lost, s.metrics(t).sum(t, "sidecar_retries_total", "dependency", "a"))
	s.wantTransitions(t, "a", 0, 0, 0)
}

// What happened: an upstream that said when to come again was asked at once.
// Right: Retry-After is honoured, as seconds or as a date; where it would
// outlast the deadline, the caller gets the answer that has it.
func TestD6_RetryAfterIgnored(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(x *exchange) {
		after := strings.TrimPrefix(x.req.URL.RawQuery, "after=")
		if after == "date" {
			after = time.Now().Add(2 * time.Second).UTC().Format(http.TimeFormat) // whole seconds, so more than one
		}
		if x.n%2 == 1 {
			x.respond(http.StatusServiceUnavailable, "busy", "Retry-After: "+after)
			return
		}
		x.respond(http.StatusOK, "ok")
	})
	s := start(t, eager+`
dependencies:
  - {name: a, listen: $A, upstream: http://$U}
`, u)
	r := s.get("A", "/?after=1")
	if r.status != http.StatusOK {
		t.Errorf("Retry-After: 1: %v", r)
	}
	wantTook(t, "a second's wait", r.took, time.Second)
	r = s.get("A", "/?after=date")
	if r.status != http.StatusOK || r.took < time.Second-tolerance {
		t.Errorf("Retry-After with a date: %v", r)
	}
	wantWithin(t, "waiting for a date", r.took, 2*time.Second+tolerance)
	seen := u.requests()
	r = s.get("A", "/?after=6")
	if r.status != http.StatusServiceUnavailable || r.body != "busy" || r.header.Get("Retry-After") != "6" {
		t.Errorf("Retry-After past the deadline: %v, %v", r, r.header)
	}
	wantWithin(t, "giving up at once", r.took, tolerance)
	if n := u.requests() - seen; n != 1 {
		t.Errorf("%d attempts, want 1", n)
	}
	s.wantMetric(t, 1, "sidecar_retries_denied_total", "dependency", "a", "reason", "deadline")
}

// What happened: retries went on past the time that the caller, or the
// operator, had given the call.
// Right: no attempt begins after the deadline, and the call ends by then.
func TestD7_RetriesPastTheDeadline(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(x *exchange) {
		if x.req.URL.Path == "/hangs" {
			x.hang()
		} else if x.delay(50 * time.Millisecond) {
			x.respond(http.StatusServiceUnavailable, "no")
		}
	})
	s := start(t, eager+`
dependencies:
  - name: a
    listen: $A
    upstream: http://$U
    timeout: 600ms
    attempt_timeout: 250ms
    retry: {max_retries: 100, backoff: {base: 40ms, max: 40ms}}
`, u)
	for _, tt := range []struct {
		path   string
		lines  []string
		bound  time.Duration
		status []int
	}{
		// An answer may be at hand that says so better than a 504.
		{"/fails", nil, 600 * time.Millisecond, []int{503, 504}},
		{"/hangs", nil, 600 * time.Millisecond, []int{504}},
		{"/fails", []string{"X-Request-Timeout-Ms: 300"}, 300 * time.Millisecond, []int{503, 504}},
		{"/hangs", []string{"X-Request-Timeout-Ms: 300"}, 300 * time.Millisecond, []int{504}},
	} {
		seen := u.requests()
		r := s.get("A", tt.path, tt.lines...)
		over := r.sent.Add(tt.bound)
		if !slices.Contains(tt.status, r.status) {
			t.Errorf("%s %q: %v", tt.path, tt.lines, r)
		}
		wantTook(t, tt.path, r.took, tt.bound)
		time.Sleep(150 * time.Millisecond) // longer than attempt and backoff
		made := u.requests() - seen
		if made < 2 {
			t.Errorf("%s %q: %d attempts, want several", tt.path, tt.lines, made)
		}
		for n := range made {
			if x := u.exchange(t, seen+n+1); x.start.After(over.Add(refusal + noise(over))) {
				t.Errorf("%s %q: attempt %d began %s after the deadline", tt.path, tt.lines, n+1, x.start.Sub(over))
			}
		}
	}
}

// What happened: an answer that had begun was tried again when it broke off,
// and the caller got the beginning twice.
// Right: once the headers have gone out, a broken answer looks broken, and
// nothing is sent again.
func TestD8_RetryOfAStartedAnswer(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(x *exchange) {
		switch x.req.URL.Path {
		case "/length":
			x.head(http.StatusOK, "Content-Length: 100")
		case "/chunked":
			x.head(http.StatusOK, "Transfer-Encoding: chunked")
			x.chunk("part")
		case "/events":
			x.head(http.StatusOK, "Content-Type: text/event-stream", "Transfer-Encoding: chunked")
			x.chunk("part")
		case "/failure": // the last of several, whose body breaks off
			x.head(http.StatusServiceUnavailable, "Content-Length: 100")
		}
		x.write("part")
		if x.delay(50 * time.Millisecond) {
			x.reset()
		}
	})
	s := start(t, eager+`
dependencies:
  - {name: a, listen: $A, upstream: http://$U}
`, u)
	for path, times := range map[string]int{"/length": 1, "/chunked": 1, "/events": 1, "/failure": 4} {
		seen := u.requests()
		r := s.get("A", path)
		if r.err == nil || strings.Count(r.body, "part") != 1 {
			t.Errorf("%s: %v, want one part and an end that looks broken", path, r)
		}
		if n := u.requests() - seen; n != times {
			t.Errorf("%s: %d attempts, want %d", path, n, times)
		}
	}
}

// What happened: all callers that failed together came back together.
// Right: the pause before the n-th retry is anywhere between nothing and
// base doubled n times, but no more than max.
func TestD9_RetriesInStep(t *testing.T) {
	t.Parallel()
	const callers = 30
	u := newUpstream(t, fails(http.StatusServiceUnavailable))
	s := start(t, eager+`
dependencies:
  - {name: a, listen: $A, upstream: http://$U, bulkhead: {max_concurrent: 30}, retry: {backoff: {base: 200ms, max: 500ms}}}
`, u)
	together(callers, func(i int) result { return s.get("A", fmt.Sprint("/", i)) })
	attempts := map[string][]*exchange{}
	for n := range u.requests() {
		x := u.exchange(t, n+1)
		attempts[x.req.URL.Path] = append(attempts[x.req.URL.Path], x)
	}
	for n, most := range []time.Duration{200 * time.Millisecond, 400 * time.Millisecond, 500 * time.Millisecond} {
		var pauses []time.Duration
		for path, all := range attempts {
			if len(all) != 4 {
				t.Fatalf("%s was attempted %d times, want 4", path, len(all))
			}
			pauses = append(pauses, all[n+1].start.Sub(all[n].start))
		}
		slices.Sort(pauses)
		wantWithin(t, "the longest pause", pauses[callers-1], most+tolerance)
		// With 30 of them, less than one test in a million misses these.
		if low, high := pauses[0], pauses[callers-1]; low > most*4/10+noise(time.Now().Add(-3*time.Second)) || high < most*6/10 {
			t.Errorf("pauses %d are between %s and %s, want them spread over %s", n+1, low, high, most)
		}
	}
}
