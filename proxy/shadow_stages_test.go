package proxy

import (
	"testing"
	"testing/synctest"
	"time"

	"sidecar/resilience/breaker"
)

// The ramp of a proposal follows its own recovery.
func TestShadowRamp(t *testing.T) {
	bubble(t, proposes(shadowTrips(1), shadowSize(11, 0, 0), func(s *Shadow) { s.Bulkhead.Ramp = 10 * time.Second }), func(r *rig) {
		r.up.will(reply{status: 500}, reply{})
		r.get("/")
		time.Sleep(time.Second)
		r.get("/")
		r.wantShadow(breaker.Closed)
		time.Sleep(5 * time.Second)
		if s := r.d.Snapshot(); s.Shadow.Bulkhead.Limit != 6 || s.Bulkhead.Limit != 10 {
			r.Errorf("limits %d and, live, %d; want 6 and 10", s.Shadow.Bulkhead.Limit, s.Bulkhead.Limit)
		}
	})
}

// A retry that the proposed circuit would have stopped is made, and heard of
// no more; one that it admits is heard of.
func TestShadowRetries(t *testing.T) {
	for _, c := range []struct{ trips, calls int }{{1, 1}, {2, 2}, {9, 3}} {
		bubble(t, both(retries(2), proposes(shadowTrips(c.trips))), func(r *rig) {
			r.up.will(reply{status: 503})
			r.get("/").want(t, 503, "", 0)
			if b := r.d.Snapshot().Shadow.Breaker; b.Calls != c.calls || r.up.count() != 3 {
				r.Errorf("trips at %d: the shadow heard of %d of %d attempts, want %d of 3", c.trips, b.Calls, r.up.count(), c.calls)
			}
			r.wantWould(would{BothAdmit: 1})
		})
	}
}

// A proposed probe whose body flows on does not hold half-open.
func TestShadowProbeBody(t *testing.T) {
	flowing := []step{{text: "a"}, {after: 9 * time.Second, text: "b"}}
	bubble(t, both(timeouts(ms(500), 0), proposes(shadowTrips(1))), func(r *rig) {
		r.up.will(reply{status: 500}, reply{after: ms(100), body: flowing})
		r.get("/")
		time.Sleep(time.Second)
		a := r.start(caller{})
		time.Sleep(ms(599))
		r.wantShadow(breaker.HalfOpen)
		time.Sleep(ms(1))
		synctest.Wait()
		r.wantShadow(breaker.Closed)
		a.wait().want(t, 200, "ab", 9*time.Second+ms(100))
	})
}

// Who leaves before both have decided, and what no upstream may see, counts in
// nothing and leaves nothing behind.
func TestShadowUndecided(t *testing.T) {
	bubble(t, both(size(1, 1, time.Second), proposes(shadowSize(1, 2, time.Second))), func(r *rig) {
		r.up.will(reply{after: ms(100)})
		r.start(caller{})
		synctest.Wait()
		r.call(caller{leaves: ms(50)})
		if b := r.d.Snapshot().Shadow.Bulkhead; b.InUse != 1 || b.Waiting != 0 {
			r.Errorf("the simulated bulkhead is %+v, want nobody to wait", b)
		}
		r.call(caller{header: map[string][]string{"Upgrade": {"h2c"}}})
		r.wantWould(would{BothAdmit: 1})
		r.made[0].wait()
		if b := r.d.Snapshot().Shadow.Bulkhead; b.InUse != 0 || b.Waiting != 0 {
			r.Errorf("the simulated bulkhead is %+v, want it empty", b)
		}
	})
}

// A probe whose caller leaves, or that the proposed bulkhead refuses, gives its
// place back.
func TestShadowProbeWithoutVerdict(t *testing.T) {
	bubble(t, both(timeouts(0, 0), proposes(shadowTrips(1))), func(r *rig) {
		r.up.will(reply{status: 500}, reply{after: forever}, reply{})
		r.get("/")
		time.Sleep(time.Second)
		r.call(caller{leaves: ms(100)})
		r.wantShadow(breaker.HalfOpen)
		r.get("/")
		r.wantShadow(breaker.Closed)
	})
	bubble(t, both(timeouts(0, 0), proposes(shadowTrips(1), shadowSize(1, 0, 0))), func(r *rig) {
		r.up.will(reply{status: 500, body: []step{{after: 1300 * time.Millisecond, text: "x"}}}, reply{})
		r.start(caller{}) // fails at once, and holds the simulated permit beyond the cooldown
		time.Sleep(ms(1100))
		r.wantShadow(breaker.HalfOpen)
		r.get("/")
		r.wantShadow(breaker.HalfOpen)
		r.made[0].wait()
		r.get("/")
		r.wantShadow(breaker.Closed)
		r.wantWould(would{BothAdmit: 2, Reject: map[Reason]uint64{ReasonQueueFull: 1}})
	})
}

// A call that is refused in earnest takes no probe's place: half-open waits for
// one that runs.
func TestShadowProbesOnlyWhatRuns(t *testing.T) {
	bubble(t, both(trips(1), proposes(func(s *Shadow) { s.Breaker.Cooldown = ms(500) })), func(r *rig) {
		r.up.will(reply{status: 500}, reply{})
		r.get("/")
		time.Sleep(ms(600))
		r.wantState(breaker.Open)
		for range 3 {
			r.get("/")
		}
		r.wantShadow(breaker.HalfOpen)
		r.wantWould(would{BothAdmit: 1, Admit: map[Reason]uint64{ReasonOpen: 3}})
		time.Sleep(ms(400))
		r.get("/")
		r.wantShadow(breaker.Closed)
	})
}

// A probe is never retried: what follows it is not heard.
func TestShadowProbeIsNotRetried(t *testing.T) {
	bubble(t, both(retries(1), func(s *Settings) {
		s.Retry.OnStatus = func(status int) bool { return status == 429 }
	}, proposes(shadowTrips(1))), func(r *rig) {
		r.up.will(reply{status: 500}, reply{status: 429}, reply{status: 500})
		r.get("/")
		time.Sleep(time.Second)
		r.get("/").want(t, 500, "", 0)
		r.wantShadow(breaker.Closed)
		if n := r.up.count(); n != 3 {
			r.Errorf("the upstream saw %d requests, want the retry too", n)
		}
	})
}

// Where only a bulkhead is proposed, a breaker that observes refuses nobody
// there either.
func TestShadowBesideObserve(t *testing.T) {
	bubble(t, both(trips(1), func(s *Settings) { s.Breaker.Mode = breaker.Observe }, proposes(shadowSize(1, 3, time.Second))), func(r *rig) {
		r.up.will(reply{after: ms(100), status: 500})
		for range 3 {
			r.start(caller{})
			synctest.Wait()
		}
		time.Sleep(ms(200))
		synctest.Wait()
		r.wantShadow(breaker.Open)
		r.wantWould(would{BothAdmit: 3})
	})
}

// Without a queue timeout, a simulated wait ends with the call's own timeout.
func TestShadowWaitEndsWithTheCall(t *testing.T) {
	bubble(t, both(timeouts(0, ms(200)), proposes(shadowSize(1, 3, 0))), func(r *rig) {
		r.up.will(reply{after: ms(190)}, reply{after: ms(190)})
		r.start(caller{})
		time.Sleep(ms(5))
		r.start(caller{})
		time.Sleep(ms(5))
		r.start(caller{})
		for _, a := range r.made {
			a.wait()
		}
		time.Sleep(time.Second)
		// The second begins at 190, before its end at 205; the third does not.
		r.wantWould(would{BothAdmit: 2, Reject: map[Reason]uint64{ReasonQueueTimeout: 1}})
	})
}

// A caller that is slow to hear of its refusal holds nothing simulated.
func TestShadowRefusedHoldsNothing(t *testing.T) {
	bubble(t, both(trips(1), proposes(shadowTrips(9))), func(r *rig) {
		r.up.will(reply{status: 500})
		r.get("/")
		r.start(caller{hears: time.Second})
		time.Sleep(ms(500))
		if n := r.d.InFlight(); n != 1 {
			r.Errorf("%d calls in flight, want the one that does not read", n)
		}
		if b := r.d.Snapshot().Shadow.Bulkhead; b.InUse != 0 {
			r.Errorf("the simulated bulkhead is %+v", b)
		}
	})
}
