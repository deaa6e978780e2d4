package breaker

import "time"

// Most calls change nothing: one that a closed circuit admits, one that an open
// circuit refuses, one that succeeds like all others of the window. They take no
// lock. Two things are published for them, by whoever holds the lock: the gate,
// and whether the window is steady.

// gate is what Allow answers in one era and mode, and what the permits of that
// era need to know. It is never changed, only replaced as a whole.
type gate struct {
	breaker     *Breaker
	era         uint64
	mode        Mode
	answer      answer
	grants      kind      // with admits: the kind of the permits
	openUntil   time.Time // zero unless open by the rules
	recoveredAt time.Time // as RecoveredAt tells it
}

// answer says what Allow does without the lock.
type answer int8

const (
	asks    answer = iota // nothing: the decision may change something
	admits                // closed, or off
	refuses               // open, until openUntil; for good if that is zero
)

// newGate returns the gate of the present era.
func (b *Breaker) newGate() *gate {
	g := &gate{breaker: b, era: b.era, mode: b.policy.Mode, openUntil: b.openUntil}
	switch {
	case b.forced == ForcedOpen:
		g.answer = refuses
	case g.mode == Off:
		g.answer, g.grants = admits, idle
	case b.state == Closed:
		g.answer, g.grants = admits, counted
	case b.state == Open && g.mode == Enforce:
		g.answer = refuses
	}
	if g.mode == Enforce {
		g.recoveredAt = b.recoveredAt
	}
	return g
}

// publish replaces the gate if the era or the mode has changed.
func (b *Breaker) publish() {
	if g := b.gate.Load(); g.era != b.era || g.mode != b.policy.Mode {
		b.gate.Store(b.newGate())
	}
}

// isSteady reports whether one more success would change nothing: the window is
// one of calls and full of successes, of which the outcome recorded last is one,
// so that there is no run of failures either. t is what the window holds.
func (b *Breaker) isSteady(t tally) bool {
	w := b.policy.Window
	return w.Span == 0 && w.Calls > 0 && t == tally{calls: w.Calls}
}
