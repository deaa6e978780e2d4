package breaker_test

import (
	"testing"
	"time"

	"sidecar/resilience/breaker"
)

func TestPermitSettlesOnce(t *testing.T) {
	t.Run("closed", func(t *testing.T) {
		play(t, inARow(2, time.Second, 1),
			begin("call"), end("call", failure), end("call", failure), end("call", success), expect(closed), counts(1, 1, 0))
	})
	t.Run("probe, then the deferred net", func(t *testing.T) {
		play(t, inARow(1, time.Second, 3),
			fail(1), wait(time.Second), begin("a"), begin("b"), begin("c"),
			end("a", success), end("a", ignored), end("a", failure), refused(errProbing), expect(halfOpen),
			end("b", ignored), end("b", ignored), begin("d"), refused(errProbing))
	})
	t.Run("a probe that panics", func(t *testing.T) {
		s := play(t, inARow(1, time.Second, 1), fail(1), wait(time.Second))
		func() {
			defer func() { _ = recover() }()
			p := s.admit()
			defer p.Done(s.now, ignored)
			panic("handler")
		}()
		succeed(1)(s)
		expect(closed)(s)
	})
	t.Run("zero value", func(t *testing.T) {
		var p breaker.Permit
		p.Done(start, failure)
		if p.Probe() || p.WouldReject() || !p.Live() || !p.RecoveredAt().IsZero() {
			t.Error("the zero permit is not without effect")
		}
	})
}

func TestLateOutcomesOfAnEarlierEra(t *testing.T) {
	t.Run("probe of an older half-open", func(t *testing.T) {
		play(t, inARow(1, time.Second, 2),
			fail(1), wait(time.Second), begin("old"), fail(1), expect(open), wait(time.Second),
			begin("new"), end("old", failure), expect(halfOpen), end("old", success),
			end("new", success), expect(halfOpen), succeed(1), expect(closed))
	})
	t.Run("old probe does not give back a new place", func(t *testing.T) {
		play(t, inARow(1, time.Second, 2),
			fail(1), wait(time.Second), begin("old"), fail(1), wait(time.Second),
			begin("a"), begin("b"), end("old", ignored), refused(errProbing))
	})
	t.Run("failures from before the recovery", func(t *testing.T) {
		play(t, inARow(2, time.Second, 1),
			begin("a"), begin("b"), begin("c"), fail(2), wait(time.Second), succeed(1), expect(closed),
			end("a", failure), end("b", failure), end("c", failure), expect(closed), counts(0, 0, 0))
	})
}

func TestLive(t *testing.T) {
	s := play(t, inARow(1, time.Second, 1), begin("queued"), begin("sick"))
	if !s.calls["queued"].Live() {
		t.Error("not live before anything changed")
	}
	end("sick", failure)(s)
	if s.calls["queued"].Live() {
		t.Error("live although the circuit opened")
	}
}

func TestRunIsUntouchedByNeutralOutcomes(t *testing.T) {
	play(t, inARow(3, time.Second, 1), fail(2), ignore(5), abandon(5), fail(1), expect(open), reason("3 failures in a row"))
}

func TestRunWithoutWindow(t *testing.T) {
	p := inARow(2, time.Second, 1)
	p.Window = breaker.Window{}
	play(t, p, times(5, fail(1), succeed(1)), expect(closed), fail(2), expect(open), counts(0, 0, 0))
}

func TestSlowCalls(t *testing.T) {
	failed := breaker.Failure | breaker.Slow
	for _, c := range []struct {
		name   string
		policy breaker.Policy
		steps  []step
	}{
		{"trips", slowRule(1), []step{
			succeed(2), slow(7), expect(closed), slow(1), expect(open), reason("8 of 10 calls slower than 1s"),
		}},
		{"abandoned calls count as slow", slowRule(1), []step{
			succeed(2), abandon(8), expect(open), reason("8 of 10 calls slower than 1s"), counts(10, 0, 8),
		}},
		{"failures may be slow as well", slowRule(1), []step{
			succeed(2), repeat(4, failed), abandon(3), counts(9, 4, 7), slow(1), expect(open),
		}},
		{"rule absent", ratioOf(1, 10, 10), []step{slow(10), abandon(10), expect(closed), counts(10, 0, 10)}},
		{"slow probe closes where the rule is absent", inARow(1, time.Second, 1), []step{
			fail(1), wait(time.Second), slow(1), expect(closed),
		}},
		{"slow probe reopens", slowRule(1), []step{
			slow(10), wait(10 * time.Second), slow(1), expect(open), reason("probes slower than 1s"),
		}},
		{"slow probes reopen as soon as the ratio is reached", slowRule(5), []step{
			slow(10), wait(10 * time.Second), slow(3), expect(halfOpen), slow(1), expect(open),
		}},
		{"few slow probes close", slowRule(5), []step{
			slow(10), wait(10 * time.Second), slow(3), succeed(1), expect(halfOpen), succeed(1), expect(closed),
		}},
	} {
		t.Run(c.name, func(t *testing.T) { play(t, c.policy, c.steps...) })
	}
}

func TestBackoffGrowsIsCappedAndReset(t *testing.T) {
	p := inARow(1, time.Second, 1)
	p.Backoff = breaker.Backoff{Factor: 3, Max: 5 * time.Second}
	play(t, p,
		fail(1), retryAfter(time.Second), wait(time.Second),
		fail(1), retryAfter(3*time.Second), wait(3*time.Second),
		fail(1), retryAfter(5*time.Second), wait(5*time.Second),
		fail(1), retryAfter(5*time.Second), wait(5*time.Second),
		succeed(1), expect(closed), fail(1), retryAfter(time.Second), opened(5, 14*time.Second))
	p.SlowCall = breaker.SlowCall{After: time.Second, Ratio: 1}
	play(t, p, fail(1), wait(time.Second), slow(1), expect(open), retryAfter(3*time.Second))
}

func TestOpenTime(t *testing.T) {
	play(t, inARow(1, 10*time.Second, 1),
		opened(0, 0), fail(1), opened(1, 0), wait(4*time.Second), opened(1, 4*time.Second),
		wait(time.Hour), opened(1, 10*time.Second), fail(1), wait(3*time.Second), opened(2, 13*time.Second),
		force(breaker.ForcedOpen), wait(time.Hour), opened(2, 13*time.Second+time.Hour),
		force(breaker.Auto), wait(time.Hour), opened(2, 13*time.Second+time.Hour))
}

// The clock alone ends a cooldown, and the transition bears the moment at which
// it was over, not the one at which somebody looked.
func TestCooldownEndsByTheClock(t *testing.T) {
	s := play(t, inARow(1, time.Second, 1), fail(1), wait(time.Second-1), expect(open), wait(time.Hour), expect(halfOpen), heard(open, halfOpen))
	opening, end := s.heard[0], s.heard[1]
	if !opening.OpenUntil.Equal(start.Add(time.Second)) {
		t.Errorf("open until %v, want a second after the start", opening.OpenUntil)
	}
	if !end.At.Equal(opening.OpenUntil) || end.Reason != "cooldown over" || !end.OpenUntil.IsZero() {
		t.Errorf("end of the cooldown = %+v", end)
	}
	if got := s.b.Snapshot(s.now); !got.Since.Equal(opening.OpenUntil) || !got.OpenUntil.IsZero() {
		t.Errorf("snapshot = %+v", got)
	}
}

func TestRecoveredAt(t *testing.T) {
	want := func(at time.Duration) step {
		return func(s *script) {
			p := s.admit()
			p.Done(s.now, success)
			if got := p.RecoveredAt(); got.IsZero() != (at == 0) || at != 0 && !got.Equal(start.Add(at)) {
				s.fatalf("RecoveredAt = %v, want %v after the start", got, at)
			}
		}
	}
	recovering := []step{want(0), fail(1), wait(time.Second), begin("p"), wait(time.Second), end("p", success)}
	t.Run("enforce", func(t *testing.T) {
		play(t, inARow(1, time.Second, 1), append(recovering, want(2*time.Second), wait(time.Hour), want(2*time.Second),
			setMode(breaker.Observe), want(0), setMode(breaker.Enforce), want(2*time.Second), reset, want(0))...)
		play(t, inARow(1, time.Second, 1), append(recovering, force(breaker.ForcedClosed), want(0), force(breaker.Auto), want(0))...)
	})
	t.Run("observe", func(t *testing.T) {
		p := inARow(1, time.Second, 1)
		p.Mode = breaker.Observe
		play(t, p, append(recovering, want(0), change(func(p *breaker.Policy) { p.Mode = breaker.Enforce }), want(0))...)
	})
}

// Clock readings may arrive in another order than they were taken in.
func TestTimeNeverRunsBackwards(t *testing.T) {
	p := ratioOfSpan(1, 100, time.Minute)
	p.ConsecutiveFailures = 2
	play(t, p,
		wait(time.Minute), succeed(1), wait(-30*time.Second), fail(2), opened(1, 0), retryAfter(40*time.Second),
		wait(40*time.Second-1), refused(errOpen), wait(1), expect(halfOpen), opened(1, 10*time.Second))
}

func TestNames(t *testing.T) {
	for got, want := range map[string]string{
		closed.String(): "closed", halfOpen.String(): "half_open", open.String(): "open", breaker.State(9).String(): "unknown",
		breaker.Enforce.String(): "enforce", breaker.Observe.String(): "observe", breaker.Off.String(): "off",
		breaker.Auto.String(): "auto",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if breaker.ForcedOpen.String() != "open" || breaker.ForcedClosed.String() != "closed" ||
		breaker.Mode(9).String() != "unknown" || breaker.Forced(9).String() != "unknown" {
		t.Error("wrong name of an order or of an unknown value")
	}
}
