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
