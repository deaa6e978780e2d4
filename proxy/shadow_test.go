package proxy

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"sidecar/resilience/breaker"
)

// proposes makes the live settings, as they stand by then, the proposal and
// changes it.
func proposes(change ...func(*Shadow)) func(*Settings) {
	return func(s *Settings) {
		s.Shadow = &Shadow{Breaker: s.Breaker, Bulkhead: s.Bulkhead}
		for _, f := range change {
			f(s.Shadow)
		}
	}
}

// would is what a shadow has counted, without zeros.
type would struct {
	Reject, Admit         map[Reason]uint64
	BothAdmit, BothRefuse uint64
}

func (r *rig) wantWould(want would) {
	r.Helper()
	s := r.d.Snapshot().Shadow
	got := would{BothAdmit: s.BothAdmit, BothRefuse: s.BothRefuse}
	for from, to := range map[*map[Reason]uint64]*map[Reason]uint64{&s.WouldReject: &got.Reject, &s.WouldAdmit: &got.Admit} {
		if len(*from) != len(Refusals) {
			r.Errorf("counts for %v, want them for all of %v", *from, Refusals)
		}
		for why, n := range *from {
			if n > 0 {
				if *to == nil {
					*to = map[Reason]uint64{}
				}
				(*to)[why] = n
			}
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		r.Errorf("counted (-want +got):\n%s", d)
	}
}

func (r *rig) wantShadow(want breaker.State) {
	r.Helper()
	if got := r.d.Snapshot().Shadow.Breaker.State; got != want {
		r.Fatalf("the shadow is %v, want %v", got, want)
	}
}

func shadowTrips(n int) func(*Shadow) {
	return func(s *Shadow) { s.Breaker.ConsecutiveFailures = n }
}

func shadowSize(running, waiting int, queue time.Duration) func(*Shadow) {
	return func(s *Shadow) {
		s.Bulkhead.MaxConcurrent, s.Bulkhead.MaxWaiting, s.Bulkhead.QueueTimeout = running, waiting, queue
	}
}

// A stricter proposal opens, probes and closes as it would in earnest, and
// nobody is refused.
func TestShadowOpensAlone(t *testing.T) {
	bubble(t, both(trips(5), proposes(shadowTrips(3))), func(r *rig) {
		r.up.will(reply{status: 500}, reply{status: 500}, reply{}, reply{status: 500})
		for range 5 {
			r.get("/") // two in a row, then two more: a near miss
		}
		r.wantShadow(breaker.Closed)
		r.get("/")
		r.wantShadow(breaker.Open)
		r.get("/")
		r.wantState(breaker.Closed)
		r.wantWould(would{BothAdmit: 6, Reject: map[Reason]uint64{ReasonOpen: 1}})

		time.Sleep(time.Second)
		r.wantShadow(breaker.HalfOpen)
		r.up.will(reply{after: ms(100)})
		probe := r.start(caller{})
		synctest.Wait()
		r.get("/")
		r.wantWould(would{BothAdmit: 7, Reject: map[Reason]uint64{ReasonOpen: 1, ReasonProbing: 1}})
		probe.wait()
		r.wantShadow(breaker.Closed)
		if n := r.d.Snapshot().Shadow.Transitions; n[breaker.Open] != 1 || n[breaker.HalfOpen] != 1 || n[breaker.Closed] != 1 {
			r.Errorf("transitions %v, want one of each", n)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.changes) != 0 || len(r.shadows) != 3 {
			r.Errorf("heard of live changes %v and of the shadow's %v", r.changes, r.shadows)
		}
	})
}

// A laxer proposal stays closed where the live circuit opens; of what was
// refused it hears nothing.
func TestShadowStaysClosed(t *testing.T) {
	bubble(t, both(trips(2), proposes(shadowTrips(3))), func(r *rig) {
		r.up.will(reply{status: 500})
		for range 4 {
			r.get("/")
		}
		r.wantState(breaker.Open)
		r.wantShadow(breaker.Closed)
		r.wantWould(would{BothAdmit: 2, Admit: map[Reason]uint64{ReasonOpen: 2}})
		if b := r.d.Snapshot().Shadow.Breaker; b.Calls != 2 || b.Failures != 2 {
			r.Errorf("the shadow heard of %d calls, want the 2 that ran", b.Calls)
		}
		time.Sleep(time.Second)
		r.get("/") // the live probe fails: the third in a row
		r.wantShadow(breaker.Open)
		r.get("/")
		r.wantWould(would{BothAdmit: 3, BothRefuse: 1, Admit: map[Reason]uint64{ReasonOpen: 2}})
	})
}

// What is slow, the proposal says by itself.
func TestShadowSlow(t *testing.T) {
	slow := func(after time.Duration) func(*Shadow) {
		return func(s *Shadow) { s.Breaker.SlowCall, s.Breaker.MinCalls = breaker.SlowCall{After: after, Ratio: 1}, 1 }
	}
	for _, c := range []struct {
		after time.Duration
		want  breaker.State
	}{{ms(100), breaker.Open}, {ms(100) + 1, breaker.Closed}} {
		bubble(t, both(noTries, proposes(slow(c.after))), func(r *rig) {
			r.up.will(reply{after: ms(100)})
			r.get("/")
			r.wantShadow(c.want)
			if n := r.evidence().slow; n != 0 {
				r.Errorf("%d live calls were slow", n)
			}
		})
	}
	// And it need not be what the live settings say.
	bubble(t, both(noTries, func(s *Settings) {
		s.Breaker.SlowCall = breaker.SlowCall{After: ms(50), Ratio: 1}
	}, proposes(slow(ms(200)))), func(r *rig) {
		r.up.will(reply{after: ms(100)})
		r.get("/")
		r.wantShadow(breaker.Closed)
		r.wantEvidence(evidence{calls: 1, slow: 1})
	})
}

// A smaller proposal fills and times out; what it would have refused is not
// heard of by its breaker.
func TestShadowSmallerBulkhead(t *testing.T) {
	bubble(t, both(size(10, 0, 0), timeouts(0, 0), proposes(shadowTrips(1), shadowSize(1, 1, ms(50)))), func(r *rig) {
		r.up.will(reply{after: ms(100)}, reply{after: ms(100)}, reply{after: ms(99), status: 500})
		for range 3 {
			r.start(caller{})
			synctest.Wait()
		}
		r.wantWould(would{BothAdmit: 1, Reject: map[Reason]uint64{ReasonQueueFull: 1}})
		time.Sleep(ms(49))
		r.wantWould(would{BothAdmit: 1, Reject: map[Reason]uint64{ReasonQueueFull: 1}})
		time.Sleep(ms(1))
		r.wantWould(would{BothAdmit: 1, Reject: map[Reason]uint64{ReasonQueueFull: 1, ReasonQueueTimeout: 1}})
		for i, a := range r.made {
			if a.wait(); (i < 2) != (a.status == 200) || a.took > ms(100) {
				r.Errorf("call %d got %d after %v", i, a.status, a.took)
			}
		}
		r.wantShadow(breaker.Closed)
		if b := r.d.Snapshot().Shadow.Breaker; b.Calls != 1 {
			r.Errorf("the shadow's breaker heard of %d calls, want the one that it would have sent", b.Calls)
		}
	})
}

// A larger proposal admits what is refused, queued or late in earnest.
func TestShadowLargerBulkhead(t *testing.T) {
	bubble(t, both(size(1, 1, ms(50)), proposes(shadowSize(2, 1, ms(60)))), func(r *rig) {
		r.up.will(reply{after: ms(100)})
		for range 3 {
			r.start(caller{})
			synctest.Wait()
		}
		// The second waits in earnest and runs here; the third is refused in
		// earnest and would wait.
		r.wantWould(would{BothAdmit: 1})
		time.Sleep(ms(49))
		if b := r.d.Snapshot().Shadow.Bulkhead; b.InUse != 2 || b.Waiting != 1 {
			r.Errorf("the simulated bulkhead is %+v", b)
		}
		time.Sleep(ms(1))
		synctest.Wait()
		r.wantWould(would{BothAdmit: 1, Admit: map[Reason]uint64{ReasonQueueTimeout: 1, ReasonQueueFull: 1}})
	})
}

// Whom the proposed breaker refuses takes no permit of its bulkhead; whoever
// waits there when it opens is refused.
func TestShadowStages(t *testing.T) {
	bubble(t, proposes(shadowTrips(1), shadowSize(1, 5, time.Second)), func(r *rig) {
		r.up.will(reply{after: ms(100), status: 500}, reply{after: ms(150)})
		r.start(caller{})
		synctest.Wait()
		r.start(caller{})
		time.Sleep(ms(100))
		synctest.Wait()
		r.wantShadow(breaker.Open)
		r.start(caller{})
		synctest.Wait()
		r.wantWould(would{BothAdmit: 1, Reject: map[Reason]uint64{ReasonOpen: 2}})
		if b := r.d.Snapshot().Shadow.Bulkhead; b.InUse != 0 || b.Waiting != 0 {
			r.Errorf("the simulated bulkhead is %+v, want it empty", b)
		}
		if b := r.d.Snapshot().Bulkhead; b.InUse != 2 {
			r.Errorf("the live bulkhead is %+v", b)
		}
	})
}

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
		r.call(caller{header: map[string][]string{"Upgrade": {"h2c"}}})
		r.wantWould(would{BothAdmit: 1})
		r.made[0].wait()
		if b := r.d.Snapshot().Shadow.Bulkhead; b.InUse != 0 || b.Waiting != 0 {
			r.Errorf("the simulated bulkhead is %+v, want it empty", b)
		}
	})
}

// A reload keeps a shadow whose proposal and upstream stay, and begins afresh
// otherwise.
func TestShadowUpdates(t *testing.T) {
	bubble(t, proposes(shadowTrips(1)), func(r *rig) {
		r.up.will(reply{status: 500})
		r.get("/")
		r.wantShadow(breaker.Open)
		since := r.d.Snapshot().Shadow.Since
		time.Sleep(ms(10))
		r.update(func(s *Settings) {
			same := *s.Shadow
			s.Timeout, s.Shadow, s.Bulkhead.MaxWaiting = time.Minute, &same, 3
		})
		r.wantShadow(breaker.Open)
		r.wantWould(would{BothAdmit: 1})
		if got := r.d.Snapshot().Shadow.Since; !got.Equal(since) {
			r.Errorf("begun again at %v", got)
		}
		for _, change := range []func(*Settings){proposes(shadowTrips(2)), moved, proposes(shadowTrips(1))} {
			r.update(change)
			r.wantShadow(breaker.Closed)
			r.wantWould(would{})
			if got := r.d.Snapshot().Shadow.Since; !got.Equal(time.Now()) {
				r.Errorf("counts since %v", got)
			}
			r.get("/")
			r.wantWould(would{BothAdmit: 1})
			time.Sleep(ms(10))
		}
		r.update(func(s *Settings) { s.Shadow = nil })
		if s := r.d.Snapshot().Shadow; s != nil {
			r.Errorf("a shadow without a proposal: %+v", s)
		}
	})
}

// A call ends under the shadow that it began with: a new proposal is not
// blamed for it, and one that has left says nothing any more.
func TestShadowUpdatesUnderCalls(t *testing.T) {
	bubble(t, proposes(shadowTrips(1)), func(r *rig) {
		r.up.will(reply{after: ms(100), status: 500})
		r.start(caller{})
		synctest.Wait()
		r.update(moved)
		r.made[0].wait()
		r.wantShadow(breaker.Closed)
		r.wantWould(would{})
		if len(r.shadows) != 0 {
			r.Errorf("heard of %v", r.shadows)
		}
	})
}
