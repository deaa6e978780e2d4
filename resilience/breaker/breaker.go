package breaker

import (
	"errors"
	"sync"
	"time"
)

// The reasons for which Allow refuses.
var (
	// ErrOpen: the circuit is open. RetryAfter tells for how long.
	ErrOpen = errors.New("circuit open: try again after the cooldown")
	// ErrProbing: the circuit is half-open and every probe's place is taken.
	ErrProbing = errors.New("circuit half-open and all probes under way: try again shortly")
)

// Breaker decides for one dependency whether an attempt may be sent. It is made
// by New and safe for concurrent use. No method blocks or allocates, except
// that a change of state allocates its Transition and calls the listener.
type Breaker struct {
	notify func(Transition) // immutable; nil if nobody listens

	mu sync.Mutex // guards everything below

	policy Policy
	forced Forced
	latest time.Time // the latest time seen

	// The present era, begun by enter.
	era         uint64
	state       State
	since       time.Time
	reason      string
	openUntil   time.Time // zero unless open by the rules
	recoveredAt time.Time // zero unless closed by successful probes

	// Evidence in closed.
	window window
	run    int // failures in a row

	// Evidence in half-open.
	probing    int // probes in flight
	successes  int // probes that succeeded
	slowProbes int // those of them that were slow

	failedProbes int // half-open eras in a row that ended in open

	// Totals, kept for life.
	openedTotal uint64
	openTime    time.Duration // of the spells that are over
	wouldReject uint64

	pending   []Transition // not yet told to notify
	notifying bool         // somebody is telling them at present
}

// New returns a closed breaker. It calls notify, which may be nil, after every
// change of state: in order, one at a time, with no lock held, so that it may
// ask the breaker itself. The call that caused the change waits for it, unless
// another one is telling it already; notify must neither block nor panic.
func New(now time.Time, p Policy, notify func(Transition)) *Breaker {
	p = p.sound()
	return &Breaker{
		notify: notify,
		policy: p,
		latest: now,
		since:  now,
		window: newWindow(now, p.Window),
	}
}

// Allow asks leave for one attempt. It returns ErrOpen or ErrProbing if the
// attempt must not be sent; the permit is then without effect. A granted permit
// must be settled with Done, else a probe would keep its place.
func (b *Breaker) Allow(now time.Time) (p Permit, err error) {
	b.mu.Lock()
	b.advance(now)
	err = b.admit(&p)
	b.unlockAndNotify()
	return p, err
}

// admit fills the permit, or refuses and leaves it as it is.
func (b *Breaker) admit(p *Permit) error {
	refusal := b.refusal()
	switch {
	case b.forced == ForcedOpen:
		return ErrOpen // an operator's order holds in every mode
	case b.policy.Mode == Off: // a permit without effect
	case refusal == nil:
		b.grant(p)
	case b.policy.Mode == Observe:
		b.wouldReject++
		p.wouldReject = true
	default:
		return refusal
	}
	p.breaker, p.era = b, b.era
	return nil
}

// grant makes the permit one whose outcome counts.
func (b *Breaker) grant(p *Permit) {
	p.counts = true
	if b.state == HalfOpen {
		b.probing++
		p.probe = true
	}
	if b.policy.Mode == Enforce {
		p.recoveredAt = b.recoveredAt
	}
}

// refusal returns why an enforcing breaker refuses an attempt at present; nil
// if it admits it.
func (b *Breaker) refusal() error {
	switch b.state {
	case Open:
		return ErrOpen
	case HalfOpen:
		if b.probing+b.successes >= b.policy.Probes {
			return ErrProbing
		}
	}
	return nil
}

// settle takes the outcome of a permit, unless it was settled before or belongs
// to an earlier era.
func (b *Breaker) settle(p *Permit, now time.Time, o Outcome) {
	b.mu.Lock()
	if !p.settled {
		p.settled = true
		now = b.advance(now)
		if p.era == b.era {
			b.record(now, o)
		}
	}
	b.unlockAndNotify()
}

// RetryAfter returns the time left until probes are admitted: 0 unless the
// circuit is open, and 0 if it was forced open, as nobody knows its end.
func (b *Breaker) RetryAfter(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.openUntil.IsZero() {
		return 0
	}
	return max(b.openUntil.Sub(now), 0)
}

// SetPolicy changes the settings in place. An open circuit keeps the end of its
// cooldown; the window keeps its outcomes unless its own shape changed; a
// half-open circuit whose probes are enough for the new settings is judged at
// once. Changing to Off returns to closed with an empty window. The rules of
// closed apply from the next outcome on.
func (b *Breaker) SetPolicy(now time.Time, p Policy) {
	p = p.sound()
	b.mu.Lock()
	now = b.advance(now)
	old := b.policy
	b.policy = p
	if p.Window != old.Window {
		b.window = newWindow(now, p.Window)
	}
	switch {
	case p.Mode == Off && old.Mode != Off:
		b.restart(now, "switched off")
	case b.state == HalfOpen:
		b.judgeProbes(now)
	}
	b.unlockAndNotify()
}

// Reset begins afresh because the upstream is another one: closed, with an
// empty window and in a new era. Totals and a forced state stay.
func (b *Breaker) Reset(now time.Time) {
	b.mu.Lock()
	now = b.advance(now)
	b.restart(now, "upstream changed")
	b.unlockAndNotify()
}

// Force carries out an operator's order. ForcedOpen and ForcedClosed hold until
// Auto, and repeating the one that holds changes nothing. Auto always returns to
// closed with an empty window, from a circuit that opened by the rules too.
func (b *Breaker) Force(now time.Time, f Forced) {
	b.mu.Lock()
	now = b.advance(now)
	switch f {
	case Auto:
		b.forced = Auto
		b.restart(now, "back to automatic")
	case b.forced: // it holds already
	case ForcedOpen:
		b.forced = ForcedOpen
		b.enter(now, Open, "forced open", time.Time{})
	case ForcedClosed:
		b.forced = ForcedClosed
		b.restart(now, "forced closed")
	}
	b.unlockAndNotify()
}
