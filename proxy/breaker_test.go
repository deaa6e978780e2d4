package proxy

import (
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sidecar/resilience/breaker"
)

var (
	openBody    = problemBody(503, "The circuit is open: recent calls to this dependency failed.", ReasonOpen)
	probingBody = problemBody(503, "The circuit is half-open: its probes are under way.", ReasonProbing)
)

// tripped opens the circuit and waits until it is half-open.
func (r *rig) tripped() {
	r.Helper()
	r.up.will(reply{status: 500})
	r.get("/trip")
	r.wantState(breaker.Open)
	time.Sleep(time.Second)
	r.wantState(breaker.HalfOpen)
}

// An open circuit refuses at once and says for how long.
func TestOpen(t *testing.T) {
	bubble(t, trips(3), func(r *rig) {
		r.up.will(reply{fails: errReset})
		for range 3 {
			r.get("/")
		}
		time.Sleep(ms(500) - 1)
		for _, method := range []string{"GET", "POST", "HEAD"} {
			got := r.call(caller{method: method})
			body := openBody
			if method == "HEAD" {
				body = ""
			}
			got.want(t, 503, body, 0)
			if h := got.header.Get("Retry-After"); h != "1" {
				r.Errorf("Retry-After: %s, want 1", h)
			}
			if c := r.lastCall(); c.Outcome != OutcomeRejected || c.Reason != ReasonOpen || !c.Refused || c.Attempts != 0 {
				r.Errorf("heard %+v, want a call rejected as open", c)
			}
		}
		if n := r.up.count(); n != 3 {
			r.Errorf("upstream saw %d requests, want 3", n)
		}
	})
}

// A3: of a crowd, as many probes go through as are configured.
func TestProbesAreBounded(t *testing.T) {
	bubble(t, both(trips(1), func(s *Settings) { s.Breaker.Probes = 2 }), func(r *rig) {
		r.tripped()
		r.up.will(reply{after: ms(400), body: text("it")})
		var all []*answer
		for range 50 {
			all = append(all, r.start(caller{}))
		}
		synctest.Wait()
		if n := r.up.count(); n != 3 {
			r.Errorf("upstream saw %d probes, want 2", n-1)
		}
		passed := 0
		for _, a := range all {
			if a.wait(); a.status == 200 {
				a.want(t, 200, "it", ms(400))
				passed++
				continue
			}
			a.want(t, 503, probingBody, 0)
		}
		if passed != 2 {
			r.Errorf("%d probes passed, want 2", passed)
		}
		r.wantState(breaker.Closed)
	})
}

// A1: a probe that ends without a verdict gives its place to the next.
func TestProbeIsGivenBack(t *testing.T) {
	for _, c := range []struct {
		name   string
		caller caller
		up     reply
		status int
	}{
		{"caller left", caller{leaves: ms(100)}, reply{after: forever}, 0},
		{"caller left in the body", caller{leaves: ms(100)}, reply{body: []step{{text: "x"}, {after: forever}}}, 200},
		{"upload stalled", caller{method: "PUT", body: text("x"), length: 2}, reply{}, 408},
		{"upload failed", caller{method: "PUT", body: []step{{text: "x"}, {err: net.ErrClosed}}, length: 2}, reply{}, 0},
		{"413", caller{method: "PUT", body: text("123456"), length: -1}, reply{}, 413},
		{"413 known before", caller{method: "PUT", body: text("123456")}, reply{}, 413},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, both(trips(1), func(s *Settings) { s.MaxRequestBytes = 5 }), func(r *rig) {
				r.tripped()
				r.up.will(c.up)
				if got := r.call(c.caller); got.status != c.status {
					r.Errorf("got %d, want %d", got.status, c.status)
				}
				r.wantState(breaker.HalfOpen)
				r.up.will(reply{body: text("it")})
				r.get("/").want(t, 200, "it", 0)
				r.wantState(breaker.Closed)
			})
		})
	}
}

// A probe that finds no permit gives its place back too.
func TestProbeRefusedByBulkhead(t *testing.T) {
	bubble(t, both(trips(1), timeouts(0, time.Minute)), func(r *rig) {
		r.up.will(reply{after: 3 * time.Second}, reply{status: 500})
		long := r.start(caller{})
		synctest.Wait()
		r.get("/trip")
		r.update(func(s *Settings) { s.Bulkhead.MaxConcurrent, s.Bulkhead.MaxWaiting = 1, 0 })
		time.Sleep(time.Second)
		for range 2 {
			if got := r.get("/"); !strings.Contains(got.body, `"queue_full"`) {
				r.Fatalf("got %q, want queue_full", got.body)
			}
		}
		long.wait()
		r.up.will(reply{})
		r.get("/").want(t, 200, "", 0)
		r.wantState(breaker.Closed)
	})
}

// A probe is judged by its headers once its body has flowed attempt_timeout.
func TestProbeWithLongBody(t *testing.T) {
	bubble(t, trips(1), func(r *rig) {
		r.tripped()
		r.up.will(reply{after: ms(100), length: 9, body: []step{{text: "a"}, {after: time.Second, err: errReset}}})
		got := r.start(caller{})
		time.Sleep(ms(600) - 1)
		r.wantState(breaker.HalfOpen)
		r.get("/").want(t, 503, probingBody, 0)
		time.Sleep(1)
		synctest.Wait()
		r.wantState(breaker.Closed)
		if got.wait(); !got.aborted {
			r.Error("the broken body was not passed on as broken")
		}
		r.wantState(breaker.Closed)
	})
	// A body that breaks off before is a failed probe.
	bubble(t, trips(1), func(r *rig) {
		r.tripped()
		r.up.will(reply{length: 9, body: []step{{text: "a"}, {after: ms(499), err: errReset}}})
		r.get("/")
		r.wantState(breaker.Open)
	})
	// Without attempt_timeout there is nothing to wait for.
	bubble(t, both(trips(1), noTries), func(r *rig) {
		r.tripped()
		r.up.will(reply{body: []step{{after: time.Second}}})
		got := r.start(caller{})
		synctest.Wait()
		r.wantState(breaker.Closed)
		got.wait()
	})
}

// A stream and an upgrade are judged by their headers at once.
func TestProbeWithStream(t *testing.T) {
	near, _ := net.Pipe()
	for _, up := range []reply{
		{header: http.Header{"Content-Type": {"text/event-stream"}}, length: -1, body: []step{{after: time.Minute - 1}}},
		{status: 101, header: http.Header{"Upgrade": {"echo"}}, switches: near},
	} {
		bubble(t, trips(1), func(r *rig) {
			r.tripped()
			if up.switches != nil {
				up.switches, _ = net.Pipe()
			}
			r.up.will(up)
			got := r.start(caller{header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {"echo"}}})
			synctest.Wait()
			r.wantState(breaker.Closed)
			got.wait()
		})
	}
}

// A probe that hangs ends at its timeout: half-open never lasts.
func TestProbeThatHangs(t *testing.T) {
	bubble(t, trips(1), func(r *rig) {
		r.tripped()
		r.up.will(reply{after: forever})
		if got := r.get("/"); got.status != 504 || got.took != ms(500) {
			r.Errorf("got %d after %v, want 504 after 500ms", got.status, got.took)
		}
		r.wantState(breaker.Open)
	})
}

// A probe is never retried.
func TestProbeIsNotRetried(t *testing.T) {
	for _, up := range []reply{{status: 503, body: text("no")}, {fails: errReset}} {
		bubble(t, both(trips(1), retries(3)), func(r *rig) {
			r.tripped()
			r.up.will(up)
			r.get("/")
			if c := r.lastCall(); c.Attempts != 1 || c.Denied != DeniedBreaker {
				r.Errorf("%d attempts, denied %q; want 1, breaker", c.Attempts, c.Denied)
			}
			r.wantState(breaker.Open)
		})
	}
}

// Who waits for a permit when the circuit opens is answered at once.
func TestOpeningEndsWaiting(t *testing.T) {
	one := func(s *Settings) { s.Bulkhead.MaxConcurrent = 1 }
	bubble(t, both(trips(1), one), func(r *rig) {
		r.up.will(reply{after: ms(300), status: 500})
		r.start(caller{})
		synctest.Wait()
		waiting := []*answer{r.start(caller{}), r.start(caller{method: "POST", body: text("x")})}
		for _, a := range waiting {
			a.wait().want(t, 503, openBody, ms(300))
		}
		if c := r.lastCall(); c.Outcome != OutcomeRejected || c.Reason != ReasonOpen || c.Waited != ms(300) {
			r.Errorf("heard %+v, want rejected as open after 300ms", c)
		}
	})
	// A breaker that only observes refuses nobody.
	bubble(t, both(trips(1), one, func(s *Settings) { s.Breaker.Mode = breaker.Observe }), func(r *rig) {
		r.up.will(reply{after: ms(300), status: 500}, reply{body: text("it")})
		r.start(caller{})
		synctest.Wait()
		r.start(caller{}).wait().want(t, 200, "it", ms(300))
		r.wantState(breaker.Open)
	})
	// An operator's order holds in every mode.
	bubble(t, both(one, func(s *Settings) { s.Breaker.Mode = breaker.Off }), func(r *rig) {
		r.up.will(reply{after: ms(300)})
		r.start(caller{})
		synctest.Wait()
		a := r.start(caller{})
		time.Sleep(ms(100))
		r.d.Force(breaker.ForcedOpen)
		a.wait().want(t, 503, openBody, ms(100))
	})
}

// A call that waited while the breaker began a new era asks it again, so that
// its verdict counts.
func TestWaiterAsksAgain(t *testing.T) {
	bubble(t, func(s *Settings) { s.Bulkhead.MaxConcurrent = 1 }, func(r *rig) {
		r.up.will(reply{after: ms(300)}, reply{status: 500})
		r.start(caller{})
		synctest.Wait()
		a := r.start(caller{})
		synctest.Wait()
		r.d.Force(breaker.Auto)
		a.wait()
		r.wantEvidence(failure)
	})
}

// After closing, the bulkhead opens step by step.
func TestRamp(t *testing.T) {
	bubble(t, both(trips(1), timeouts(0, 0), func(s *Settings) {
		s.Bulkhead.MaxConcurrent, s.Bulkhead.MaxWaiting, s.Bulkhead.Ramp = 21, 0, 10*time.Second
	}), func(r *rig) {
		r.tripped()
		r.up.will(reply{})
		r.get("/")
		r.wantState(breaker.Closed)
		r.up.will(reply{after: ms(100)})
		for _, c := range []struct {
			at   time.Duration
			want int
		}{{0, 1}, {5 * time.Second, 11}, {10*time.Second - 1, 20}, {10 * time.Second, 21}} {
			time.Sleep(c.at - time.Since(r.d.Snapshot().Breaker.Since))
			before := r.up.count()
			var all []*answer
			for range 30 {
				all = append(all, r.start(caller{}))
			}
			for _, a := range all {
				a.wait()
			}
			if got := r.up.count() - before; got != c.want {
				r.Errorf("%v after closing %d calls ran, want %d", c.at, got, c.want)
			}
		}
	})
}
