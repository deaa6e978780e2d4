package proxy

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"

	"sidecar/resilience/breaker"
)

// told is all that callers, observer and API see of the live settings.
type told struct {
	Answers  []toldAnswer
	Calls    []Call
	Attempts []Attempt
	Changes  []breaker.Transition
	State    Snapshot
}

type toldAnswer struct {
	Status  int
	Header  http.Header
	Body    string
	Aborted bool
	Took    time.Duration
}

// sorted puts in order what may end in one instant: all who wait are refused
// together when the circuit opens.
func sorted[T any](all []T) []T {
	slices.SortFunc(all, func(a, b T) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return all
}

// play runs the schedule of a seed. No two of its events fall into one instant,
// so that nothing depends on which goroutine runs first.
func play(t *testing.T, seed uint64, shadow func(*Settings)) (all told, seen ShadowSnapshot) {
	t.Helper()
	live := both(retries(1), keepsCopies, trips(3), size(3, 2, ms(47)), timeouts(ms(61), ms(173)), func(s *Settings) {
		s.Breaker.Cooldown, s.Breaker.Probes, s.Bulkhead.Ramp = ms(97), 2, ms(211)
		s.Breaker.SlowCall = breaker.SlowCall{After: ms(53), Ratio: 0.9}
	}, shadow)
	bubble(t, live, func(r *rig) {
		began := time.Now()
		rnd := rand.New(rand.NewPCG(seed, 1))
		r.up.choose = func(n int, _ *request) reply {
			re := randomReply(rand.New(rand.NewPCG(seed, uint64(n)+2)))
			re.after += time.Duration(n)*1009 + 13
			return re
		}
		for range 120 {
			c := randomCaller(rnd)
			if c.leaves > 0 {
				c.leaves += 7
			}
			for i := range c.body {
				c.body[i].after += time.Duration(i) * 17
			}
			r.start(c)
			time.Sleep(time.Duration(rnd.IntN(25))*time.Millisecond + 104_729)
			if s := r.d.Snapshot().Shadow; s != nil && s.Bulkhead.InUse > 2 {
				r.Errorf("%d simulated permits of 2 are held", s.Bulkhead.InUse)
			}
		}
		for _, a := range r.made {
			a.wait()
			all.Answers = append(all.Answers, toldAnswer{a.status, a.header, a.body, a.aborted, a.took})
		}
		time.Sleep(time.Minute)
		all.Calls, all.Attempts, all.State = sorted(r.calls), sorted(r.attempts), r.d.Snapshot()
		for _, change := range r.changes {
			change.At, change.OpenUntil = time.Time{}.Add(change.At.Sub(began)), time.Time{}
			all.Changes = append(all.Changes, change)
		}
		if s := all.State.Shadow; s != nil {
			seen = *s
			if s.Bulkhead.InUse != 0 || s.Bulkhead.Waiting != 0 {
				r.Errorf("left over in the simulation: %+v", s.Bulkhead)
			}
		}
		all.State.Shadow = nil
		all.State.Breaker.Since, all.State.Breaker.OpenUntil = time.Time{}, time.Time{}
		all.State.Breaker.RecoveredAt = time.Time{}
	})
	return all, seen
}

// Whatever is proposed, the same schedule gives the same answers, the same
// counts and the same states.
func TestShadowTouchesNothing(t *testing.T) {
	proposals := []func(*Settings){
		proposes(shadowTrips(1), shadowSize(1, 0, 0)),
		proposes(shadowTrips(0), shadowSize(2, 1, ms(5)), func(s *Shadow) { s.Breaker.SlowCall = breaker.SlowCall{After: ms(3), Ratio: 0.1} }),
	}
	var differs, compared uint64
	for seed := range uint64(20) {
		alone, _ := play(t, seed, func(*Settings) {})
		beside, seen := play(t, seed, proposals[seed%2])
		if d := diff.Diff(alone, beside); d != "" {
			t.Fatalf("seed %d (-alone +with a shadow):\n%s", seed, d)
		}
		compared += seen.BothAdmit + seen.BothRefuse
		for _, why := range Refusals {
			differs += seen.WouldReject[why] + seen.WouldAdmit[why]
		}
	}
	if differs < 100 || compared < 100 {
		t.Errorf("the proposals disagreed on %d calls and agreed on %d; the test compares too little", differs, compared)
	}
}
