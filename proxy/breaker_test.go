package proxy

import (
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
	for _, mode := range []breaker.Mode{breaker.Enforce, breaker.Observe, breaker.Off} {
		bubble(t, both(one, func(s *Settings) { s.Breaker.Mode = mode }), func(r *rig) {
			r.up.will(reply{after: ms(300)})
			r.start(caller{})
			synctest.Wait()
			a := r.start(caller{})
			time.Sleep(ms(100))
			r.d.Force(breaker.ForcedOpen)
			a.wait().want(t, 503, openBody, ms(100))
		})
	}
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
