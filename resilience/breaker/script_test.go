package breaker_test

import (
	"errors"
	"testing"
	"time"

	"sidecar/resilience/breaker"
)

// A script is a list of steps done to one breaker in virtual time. Each step
// that does not find what it expects fails the test and names its number.
type script struct {
	t      *testing.T
	b      *breaker.Breaker
	policy breaker.Policy
	now    time.Time
	step   int
	calls  map[string]*breaker.Permit // begun and not yet ended
	heard  []breaker.Transition
}

type step func(*script)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// play runs the steps on a new breaker and returns the script for further
// looks.
func play(t *testing.T, p breaker.Policy, steps ...step) *script {
	t.Helper()
	s := &script{t: t, policy: p, now: start, calls: map[string]*breaker.Permit{}}
	s.b = breaker.New(start, p, func(tr breaker.Transition) { s.heard = append(s.heard, tr) })
	for i, do := range steps {
		s.step = i + 1
		do(s)
	}
	return s
}

func (s *script) fatalf(format string, args ...any) {
	s.t.Helper()
	s.t.Fatalf("step %d: "+format, append([]any{s.step}, args...)...)
}

// admit asks for a permit and must get one.
func (s *script) admit() *breaker.Permit {
	s.t.Helper()
	p, err := s.b.Allow(s.now)
	if err != nil {
		s.fatalf("refused: %v", err)
	}
	return &p
}

// repeat makes n admitted calls that end at once.
func repeat(n int, o breaker.Outcome) step {
	return func(s *script) {
		for range n {
			s.admit().Done(s.now, o)
		}
	}
}

func succeed(n int) step { return repeat(n, breaker.Success) }
func fail(n int) step    { return repeat(n, breaker.Failure) }
func ignore(n int) step  { return repeat(n, breaker.Ignored) }
func slow(n int) step    { return repeat(n, breaker.Success|breaker.Slow) }
func abandon(n int) step { return repeat(n, breaker.Slow) }

// begin starts a call that ends later.
func begin(name string) step {
	return func(s *script) { s.calls[name] = s.admit() }
}

// end ends a call that was begun. It may be repeated.
func end(name string, o breaker.Outcome) step {
	return func(s *script) { s.calls[name].Done(s.now, o) }
}

func wait(d time.Duration) step {
	return func(s *script) { s.now = s.now.Add(d) }
}

// times repeats steps.
func times(n int, steps ...step) step {
	return func(s *script) {
		for range n {
			for _, do := range steps {
				do(s)
			}
		}
	}
}

func refused(want error) step {
	return func(s *script) {
		if p, err := s.b.Allow(s.now); !errors.Is(err, want) || p != (breaker.Permit{}) {
			s.fatalf("Allow = %+v, %v; want no permit, %v", p, err, want)
		}
	}
}

// wouldReject is the observe mode's refusal: a permit whose outcome, here a
// failure, counts for nothing.
func wouldReject(s *script) {
	p := s.admit()
	if !p.WouldReject() || p.Probe() {
		s.fatalf("WouldReject = %v, Probe = %v; want true, false", p.WouldReject(), p.Probe())
	}
	p.Done(s.now, breaker.Failure)
}

// expect looks at the state; the look itself may be what finds a cooldown over.
func expect(want breaker.State) step {
	return func(s *script) {
		if got := s.b.Snapshot(s.now); got.State != want {
			s.fatalf("state = %v (%s), want %v", got.State, got.Reason, want)
		}
	}
}

func reason(want string) step {
	return func(s *script) {
		if got := s.b.Snapshot(s.now).Reason; got != want {
			s.fatalf("reason = %q, want %q", got, want)
		}
	}
}

func counts(calls, failures, slow int) step {
	return func(s *script) {
		got := s.b.Snapshot(s.now)
		if got.Calls != calls || got.Failures != failures || got.Slow != slow {
			s.fatalf("calls, failures, slow = %d, %d, %d; want %d, %d, %d",
				got.Calls, got.Failures, got.Slow, calls, failures, slow)
		}
	}
}

// retryAfter looks at the time left of a cooldown.
func retryAfter(want time.Duration) step {
	return func(s *script) {
		if got := s.b.RetryAfter(s.now); got != want {
			s.fatalf("RetryAfter = %v, want %v", got, want)
		}
	}
}

// opened looks at the totals.
func opened(n uint64, total time.Duration) step {
	return func(s *script) {
		got := s.b.Snapshot(s.now)
		if got.OpenedTotal != n || got.OpenTime != total {
			s.fatalf("opened %d times for %v, want %d for %v", got.OpenedTotal, got.OpenTime, n, total)
		}
	}
}

// heard looks at the states that the listener was told of since the start.
func heard(want ...breaker.State) step {
	return func(s *script) {
		from := breaker.Closed
		if len(s.heard) != len(want) {
			s.fatalf("heard %+v, want changes to %v", s.heard, want)
		}
		for i, to := range want {
			if tr := s.heard[i]; tr.From != from || tr.To != to {
				s.fatalf("change %d is %v to %v, want %v to %v", i, tr.From, tr.To, from, to)
			}
			from = to
		}
	}
}

func force(f breaker.Forced) step {
	return func(s *script) { s.b.Force(s.now, f) }
}

func reset(s *script) { s.b.Reset(s.now) }

// change edits the policy in place.
func change(edit func(*breaker.Policy)) step {
	return func(s *script) {
		edit(&s.policy)
		s.b.SetPolicy(s.now, s.policy)
	}
}

// The policies of the scripts are exact: no jitter.

// inARow trips after n failures in a row and by no other rule.
func inARow(n int, cooldown time.Duration, probes int) breaker.Policy {
	return breaker.Policy{
		Window: breaker.Window{Calls: 20}, MinCalls: 1_000_000, FailureRatio: 0.5,
		ConsecutiveFailures: n, Cooldown: cooldown, Probes: probes,
	}
}

// ratioOf trips when the ratio of the last calls failed.
func ratioOf(ratio float64, minCalls, window int) breaker.Policy {
	return breaker.Policy{
		Window: breaker.Window{Calls: window}, MinCalls: minCalls, FailureRatio: ratio,
		Cooldown: 10 * time.Second, Probes: 1,
	}
}

// slowRule trips when eight of the last ten were slower than a second, and
// keeps out of the way of failures.
func slowRule(probes int) breaker.Policy {
	p := ratioOf(1, 10, 10)
	p.SlowCall = breaker.SlowCall{After: time.Second, Ratio: 0.8}
	p.Probes = probes
	return p
}
