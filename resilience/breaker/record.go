package breaker

import (
	"fmt"
	"time"
)

// record takes the outcome of an attempt admitted in the present era. In open
// there is none: nothing was admitted.
func (b *Breaker) record(now time.Time, o Outcome) {
	switch b.state {
	case Closed:
		b.recordCall(now, o)
	case HalfOpen:
		b.recordProbe(now, o)
	}
}

// recordCall takes an outcome in closed, and trips the circuit if it meets a
// rule.
func (b *Breaker) recordCall(now time.Time, o Outcome) {
	switch {
	case o.has(Failure):
		b.run++
	case o.has(Success):
		b.run = 0
	case o.has(Slow): // abandoned: counts in the window only
	default:
		return // ignored
	}
	t := b.window.record(now, o)
	if steady := b.isSteady(t); steady != b.steady.Load() {
		b.steady.Store(steady)
	}
	if b.forced == ForcedClosed {
		return
	}
	if reason := b.tripReason(t); reason != "" {
		b.open(now, reason)
	}
}

// tripReason returns the rule that is met by the window and the run, in words;
// "" if none is.
func (b *Breaker) tripReason(t tally) string {
	p := &b.policy
	enough := t.calls >= p.MinCalls
	switch {
	case enough && reaches(t.failures, t.calls, p.FailureRatio):
		return fmt.Sprintf("%d of %d calls failed", t.failures, t.calls)
	case p.ConsecutiveFailures > 0 && b.run >= p.ConsecutiveFailures:
		return fmt.Sprintf("%d failures in a row", b.run)
	case enough && p.SlowCall.Ratio > 0 && reaches(t.slow, t.calls, p.SlowCall.Ratio):
		return fmt.Sprintf("%d of %d calls slower than %v", t.slow, t.calls, p.SlowCall.After)
	}
	return ""
}

// recordProbe takes an outcome in half-open. Without a verdict (Ignored, or
// Slow alone) the probe merely gives its place back.
func (b *Breaker) recordProbe(now time.Time, o Outcome) {
	b.probing--
	switch {
	case o.has(Failure):
		b.reopen(now, "probe failed")
	case o.has(Success):
		b.successes++
		if o.has(Slow) {
			b.slowProbes++
		}
		b.judgeProbes(now)
	}
}

// judgeProbes ends half-open if the successful probes are slow too often, or
// else if they are enough.
func (b *Breaker) judgeProbes(now time.Time) {
	p := &b.policy
	switch {
	case p.SlowCall.Ratio > 0 && reaches(b.slowProbes, p.Probes, p.SlowCall.Ratio):
		b.reopen(now, fmt.Sprintf("probes slower than %v", p.SlowCall.After))
	case b.successes >= p.Probes:
		b.closeRecovered(now)
	}
}

// reaches reports whether part/whole ≥ ratio, and part is not nothing. The
// division is rounded as the ratio itself was when it was read, so 4 of 5
// reaches 0.8 exactly, which 5·0.8 would not guarantee.
func reaches(part, whole int, ratio float64) bool {
	return part > 0 && float64(part)/float64(whole) >= ratio
}
