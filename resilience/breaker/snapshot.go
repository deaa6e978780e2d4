package breaker

import "time"

// Snapshot is what a breaker looks like at one moment. It is a plain value.
type Snapshot struct {
	State  State
	Mode   Mode
	Forced Forced
	// Since is when the present state began: by a transition, an operator's
	// order, or a changed upstream.
	Since time.Time
	// OpenUntil is the end of the cooldown; zero unless the circuit is open by
	// the rules.
	OpenUntil time.Time
	// Reason tells why the present state began; empty for a new breaker.
	Reason string

	// RecoveredAt is as [Permit.RecoveredAt]: when probes closed the circuit, if
	// that is how the present state began in the mode Enforce.
	RecoveredAt time.Time

	// Calls, Failures and Slow count the outcomes in the window. While the
	// circuit is open or half-open they are those from before, which a window
	// of time forgets as it passes; probes are not among them.
	Calls, Failures, Slow int

	// OpenedTotal counts the transitions to open.
	OpenedTotal uint64
	// OpenTime is the time spent open, the running spell included.
	OpenTime time.Duration
	// WouldReject counts the attempts that an enforcing breaker would have
	// refused in observe mode.
	WouldReject uint64
}

// Snapshot returns the present state. It lets the clock act as Allow does: a
// cooldown that is over shows without any traffic.
func (b *Breaker) Snapshot(now time.Time) Snapshot {
	b.mu.Lock()
	now = b.advance(now)
	t := b.window.tally(now)
	s := Snapshot{
		State:       b.state,
		Mode:        b.policy.Mode,
		Forced:      b.forced,
		Since:       b.since,
		OpenUntil:   b.openUntil,
		Reason:      b.reason,
		Calls:       t.calls,
		Failures:    t.failures,
		Slow:        t.slow,
		OpenedTotal: b.openedTotal,
		OpenTime:    b.openTime,
		WouldReject: b.wouldReject,
	}
	if b.policy.Mode == Enforce {
		s.RecoveredAt = b.recoveredAt
	}
	if b.state == Open {
		s.OpenTime += now.Sub(b.since)
	}
	b.unlockAndNotify()
	return s
}
