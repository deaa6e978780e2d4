package proxy

import (
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"sidecar/resilience/breaker"
)

func size(running, waiting int, queue time.Duration) func(*Settings) {
	return func(s *Settings) {
		s.Bulkhead.MaxConcurrent, s.Bulkhead.MaxWaiting, s.Bulkhead.QueueTimeout = running, waiting, queue
	}
}

var (
	fullBody = problemBody(503, "Every permit and every waiting place of this dependency is taken.", ReasonQueueFull)
	lateBody = problemBody(503, "No permit of this dependency became free in time.", ReasonQueueTimeout)
)

// B4: so many run, so many wait, the rest is refused at once.
func TestQueueArithmetic(t *testing.T) {
	for _, waiting := range []int{3, 0} {
		bubble(t, size(3, waiting, ms(500)), func(r *rig) {
			r.up.will(reply{after: ms(300), body: text("it")})
			var all []*answer
			for range 3 + waiting + 1 {
				all = append(all, r.start(caller{}))
				synctest.Wait()
			}
			for i, a := range all {
				switch a.wait(); {
				case i < 3:
					a.want(t, 200, "it", ms(300))
				case i < 3+waiting:
					a.want(t, 200, "it", ms(600))
				default:
					a.want(t, 503, fullBody, 0)
				}
			}
		})
	}
}

// A wait ends after queue_timeout.
func TestQueueTimeout(t *testing.T) {
	bubble(t, both(size(1, 1, ms(200)), noTries), func(r *rig) {
		r.up.will(reply{after: time.Second})
		r.start(caller{})
		synctest.Wait()
		r.call(caller{method: "PUT", body: text("x")}).want(t, 503, lateBody, ms(200))
		if h := r.lastCall(); h.Outcome != OutcomeRejected || h.Reason != ReasonQueueTimeout || h.Waited != ms(200) || !h.Refused {
			r.Errorf("heard %+v", h)
		}
	})
}

// Calls are served in the order in which they came.
func TestQueueOrder(t *testing.T) {
	bubble(t, size(1, 9, 0), func(r *rig) {
		r.up.will(reply{after: ms(100)})
		var want, got []string
		for _, target := range []string{"/0", "/1", "/2", "/3", "/4", "/5"} {
			want = append(want, target)
			r.start(caller{target: target})
			synctest.Wait()
		}
		for _, a := range r.made {
			a.wait()
		}
		for i := range r.up.count() {
			got = append(got, r.up.request(i).target)
		}
		if !slices.Equal(got, want) {
			r.Errorf("served %v, want %v", got, want)
		}
	})
}

// B2: a waiter whose caller left is gone at once and never runs.
func TestWaiterLeaves(t *testing.T) {
	bubble(t, both(size(1, 5, 5*time.Second), timeouts(0, 0)), func(r *rig) {
		r.up.will(reply{after: 2 * time.Second})
		r.start(caller{})
		synctest.Wait()
		for range 5 {
			r.start(caller{leaves: ms(200)})
		}
		time.Sleep(ms(200))
		synctest.Wait()
		if n := r.d.Snapshot().Bulkhead.Waiting; n != 0 {
			r.Errorf("%d still wait", n)
		}
		if h := r.lastCall(); h.Outcome != OutcomeCanceled || h.Refused || h.Status != statusCanceled {
			r.Errorf("heard %+v, want canceled", h)
		}
		r.call(caller{}).want(t, 200, "", 1800*time.Millisecond+2*time.Second)
		if r.up.count() != 2 {
			r.Errorf("upstream saw %d requests, want 2", r.up.count())
		}
	})
}

// B3: a permit is held to the last byte, and free when the caller leaves.
func TestPermitIsHeldToTheLastByte(t *testing.T) {
	bubble(t, size(2, 9, 0), func(r *rig) {
		r.up.will(reply{body: []step{{text: "it"}, {after: ms(1500)}}})
		for range 4 {
			r.start(caller{})
		}
		time.Sleep(ms(1500) - 1)
		if r.up.count() != 2 {
			r.Errorf("%d run at once, want 2", r.up.count())
		}
		for _, a := range r.made {
			if a.wait(); a.body != "it" {
				r.Errorf("got %q", a.body)
			}
		}
	})
	bubble(t, size(1, 0, 0), func(r *rig) {
		r.up.will(reply{body: []step{{text: "it"}, {after: forever}}})
		r.start(caller{leaves: ms(100)})
		time.Sleep(ms(100) - 1)
		r.get("/").want(t, 503, fullBody, 0)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		r.call(caller{leaves: 1})
		if r.up.count() != 2 {
			r.Errorf("upstream saw %d requests, want 2", r.up.count())
		}
	})
}

// While a call waits its body is not read.
func TestWaiterIsNotRead(t *testing.T) {
	bubble(t, size(1, 1, 0), func(r *rig) {
		r.up.will(reply{after: ms(300)}, reply{body: text("it")})
		r.start(caller{})
		synctest.Wait()
		a := r.start(caller{method: "PUT", body: text("x")})
		synctest.Wait()
		if left := a.req.Body.(*upload).left.Load(); left != 1 {
			r.Error("the body was read while the call waited")
		}
		a.wait().want(t, 200, "it", ms(300))
		if q := r.up.request(1); q.body != "x" {
			r.Errorf("the upstream got %q", q.body)
		}
	})
}

// A call that waited while the breaker began a new era asks it again, so that
// its verdict counts, and so that it does not get past an open circuit.
func TestWaiterAsksAgain(t *testing.T) {
	bubble(t, size(1, 1, 0), func(r *rig) {
		r.up.will(reply{after: ms(300)}, reply{status: 500})
		r.start(caller{})
		synctest.Wait()
		a := r.start(caller{})
		synctest.Wait()
		r.d.Force(breaker.Auto)
		a.wait()
		r.wantEvidence(failure)
	})
	bubble(t, both(size(1, 1, 0), trips(1), func(s *Settings) { s.Breaker.Mode = breaker.Observe }), func(r *rig) {
		r.up.will(reply{after: ms(300), status: 500})
		r.start(caller{})
		synctest.Wait()
		a := r.start(caller{})
		time.Sleep(ms(100))
		r.d.breaker.SetPolicy(time.Now(), breaker.Policy{ConsecutiveFailures: 1, Cooldown: time.Second})
		a.wait().want(t, 503, openBody, ms(300))
	})
}

// A panic gives back what the call held.
func TestPanic(t *testing.T) {
	bubble(t, both(size(1, 0, 0), trips(1)), func(r *rig) {
		r.tripped()
		r.d.current.Load().pool.instead = roundTripperFunc(func(*http.Request) (*http.Response, error) {
			panic(http.ErrAbortHandler)
		})
		if a := r.get("/"); !a.aborted {
			r.Error("the panic got lost")
		}
		r.d.current.Load().pool.instead = r.up
		r.up.will(reply{})
		r.get("/").want(t, 200, "", 0)
	})
}
