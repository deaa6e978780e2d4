package breaker_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sidecar/resilience/breaker"
)

// together runs n goroutines that start at the same moment, and waits for them.
func together(n int, f func(i int)) {
	var wg sync.WaitGroup
	gate := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-gate
			f(i)
		})
	}
	close(gate)
	wg.Wait()
}

func TestFailuresAtOnceTripOnce(t *testing.T) {
	var told []breaker.Transition
	b := breaker.New(start, inARow(5, time.Second, 1), func(tr breaker.Transition) { told = append(told, tr) })
	permits := make([]breaker.Permit, 64)
	for i := range permits {
		var err error
		if permits[i], err = b.Allow(start); err != nil {
			t.Fatal(err)
		}
	}
	together(len(permits), func(i int) { permits[i].Done(start.Add(time.Duration(i)), failure) })
	if len(told) != 1 || told[0].From != closed || told[0].To != open {
		t.Errorf("told %+v, want one change from closed to open", told)
	}
	if got := b.Snapshot(start.Add(time.Minute)); got.OpenedTotal != 1 {
		t.Errorf("opened %d times", got.OpenedTotal)
	}
}

func TestCrowdAtTheEndOfTheCooldown(t *testing.T) {
	s := play(t, inARow(1, time.Second, 3), fail(1), wait(time.Second))
	var probes atomic.Int32
	together(50, func(int) {
		switch p, err := s.b.Allow(s.now); {
		case err == nil && p.Probe():
			probes.Add(1)
		case err != errProbing:
			t.Errorf("got %+v, %v", p, err)
		}
	})
	if probes.Load() != 3 {
		t.Errorf("%d probes admitted, want 3", probes.Load())
	}
	heard(open, halfOpen)(s)
}

// One permit may be settled by two goroutines, such as a timer and the end of
// the body: one of them counts.
func TestDoneTwiceAtOnce(t *testing.T) {
	for range 50 {
		s := play(t, inARow(1, time.Second, 2), fail(1), wait(time.Second), begin("p"))
		together(2, func(int) { s.calls["p"].Done(s.now, success) })
		expect(halfOpen)(s)
		succeed(1)(s)
		expect(closed)(s)
	}
}

// A success needs no lock while all others were successes as well. Beside a
// failure of the same permit one of the two counts, and the window stays whole.
func TestDoneWithAndWithoutLockAtOnce(t *testing.T) {
	const calls = 4
	s := play(t, ratioOf(1, calls, calls), succeed(calls))
	for i := range 300 {
		begin("p")(s)
		together(3, func(i int) { s.calls["p"].Done(s.now, []breaker.Outcome{success, failure, ignored}[i]) })
		failures := s.b.Snapshot(s.now).Failures
		if failures > 1 {
			t.Fatalf("round %d: %d failures of one call", i, failures)
		}
		end("p", failure)(s)
		counts(calls, failures, 0)(s)
		succeed(calls)(s)
		counts(calls, 0, 0)(s)
	}
}

// TestStormOfSuccesses mixes calls that need no lock with those that do, and
// with orders. After it the breaker counts as a new one does.
func TestStormOfSuccesses(t *testing.T) {
	p := inARow(2, time.Millisecond, 1)
	p.Window.Calls = 4
	s := play(t, p)
	var clock atomic.Int64
	together(8, func(i int) {
		random := rand.New(rand.NewPCG(2, uint64(i)))
		for range 500 {
			now := start.Add(time.Duration(clock.Add(int64(50 * time.Microsecond))))
			if permit, err := s.b.Allow(now); err == nil {
				outcome := success
				if random.IntN(10) == 0 {
					outcome = failure
				}
				permit.Done(now, outcome)
				permit.Done(now, failure)
			}
			switch random.IntN(50) {
			case 0:
				s.b.SetPolicy(now, p)
			case 1:
				s.b.Reset(now)
			case 2:
				s.b.Force(now, breaker.ForcedOpen)
				s.b.Force(now, breaker.Auto)
			}
		}
	})
	s.now = start.Add(time.Hour)
	force(breaker.Auto)(s)
	counts(0, 0, 0)(s)
	times(20, fail(1), succeed(1), expect(closed))(s)
	succeed(4)(s)
	counts(4, 0, 0)(s)
	fail(2)(s)
	expect(open)(s)
}

// TestStorm lets many goroutines do everything at once, in virtual time. Probes
// never fail here, so that no half-open era ends while one is in flight and all
// those in flight belong to the present one.
func TestStorm(t *testing.T) {
	const probes = 3
	var (
		clock    atomic.Int64 // nanoseconds since start
		inFlight atomic.Int32
		told     []breaker.Transition
	)
	p := inARow(3, time.Millisecond, probes)
	b := breaker.New(start, p, func(tr breaker.Transition) { told = append(told, tr) })
	tick := func() time.Time { return start.Add(time.Duration(clock.Add(int64(20 * time.Microsecond)))) }
	together(16, func(i int) {
		random := rand.New(rand.NewPCG(1, uint64(i)))
		for range 300 {
			permit, err := b.Allow(tick())
			switch {
			case err != nil:
				b.RetryAfter(tick())
			case permit.Probe():
				if n := inFlight.Add(1); n > probes {
					t.Errorf("%d probes in flight, want at most %d", n, probes)
				}
				permit.Live()
				inFlight.Add(-1)
				permit.Done(tick(), []breaker.Outcome{success, success, ignored}[random.IntN(3)])
			default:
				permit.Done(tick(), []breaker.Outcome{success, failure, failure, ignored}[random.IntN(4)])
			}
			switch random.IntN(20) {
			case 0:
				b.Snapshot(tick())
			case 1:
				changed := p
				changed.Window.Calls = 5 + random.IntN(5)
				b.SetPolicy(tick(), changed)
			}
		}
	})
	state, trips := closed, uint64(0)
	for i, tr := range told {
		if tr.From != state || tr.To == state {
			t.Fatalf("change %d is from %v to %v, want from %v", i, tr.From, tr.To, state)
		}
		if state = tr.To; state == open {
			trips++
		}
	}
	got := b.Snapshot(start.Add(time.Duration(clock.Load())))
	if trips == 0 || got.OpenedTotal != trips {
		t.Errorf("opened %d times and told of %d", got.OpenedTotal, trips)
	}
}
