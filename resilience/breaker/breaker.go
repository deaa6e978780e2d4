package breaker

import (
	"errors"
	"sync"
	"sync/atomic"
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

	// What most calls need, read without the lock and seldom written: see gate.go.
	gate   atomic.Pointer[gate]
	steady atomic.Bool

	// What every recorded outcome writes. It lies on cache lines of its own, as
	// all that it shares one with would have to come from the other core.
	_      [64]byte
	mu     sync.Mutex // guards the rest, and the writing of gate and steady
	run    int        // failures in a row, evidence in closed
	latest time.Time  // the latest time seen
	_      [64]byte

	policy Policy
	forced Forced

	// The present era, begun by enter.
	era         uint64
	state       State
	since       time.Time
	reason      string
	openUntil   time.Time // zero unless open by the rules
	recoveredAt time.Time // zero unless closed by successful probes

	// Evidence in closed, with run.
	window window

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
	b := &Breaker{
		notify: notify,
		policy: p,
		latest: now,
		since:  now,
		window: newWindow(now, p.Window),
	}
	b.gate.Store(b.newGate())
	return b
}

// Allow asks leave for one attempt. It returns ErrOpen or ErrProbing if the
// attempt must not be sent; the permit is then without effect. A granted permit
// must be settled with Done, else a probe would keep its place.
func (b *Breaker) Allow(now time.Time) (Permit, error) {
	g := b.gate.Load()
	switch {
	case g.answer == admits:
		return Permit{gate: g, kind: g.grants}, nil
	case g.answer == refuses && (now.Before(g.openUntil) || g.openUntil.IsZero()):
		return Permit{}, ErrOpen
	}
	return b.decide(now)
}

// decide answers Allow where that may change something: a place for a probe, the
// end of a cooldown, a refusal that is only counted.
func (b *Breaker) decide(now time.Time) (Permit, error) {
	b.mu.Lock()
	b.advance(now)
	b.publish() // the permit belongs to the present era
	k, err := b.admit()
	g := b.gate.Load()
	b.unlockAndNotify()
	if err != nil {
		return Permit{}, err
	}
	return Permit{gate: g, kind: k}, nil
}

// admit returns the kind of the permit to grant, or refuses.
func (b *Breaker) admit() (kind, error) {
	refusal := b.refusal()
	switch {
	case b.forced == ForcedOpen:
		return idle, ErrOpen // an operator's order holds in every mode
	case b.policy.Mode == Off:
		return idle, nil
	case refusal == nil && b.state == HalfOpen:
		b.probing++
		return probe, nil
	case refusal == nil:
		return counted, nil
	case b.policy.Mode == Observe:
		b.wouldReject++
		return overruled, nil
	}
	return idle, refusal
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
	if !p.settled && atomic.LoadUint32(&p.spent) == 0 {
		p.settled = true
		now = b.advance(now)
		if p.gate.era == b.era {
			b.record(now, o)
		}
	}
	b.unlockAndNotify()
}

// RetryAfter returns the time left until probes are admitted: 0 unless the
// circuit is open, and 0 if it was forced open, as nobody knows its end.
func (b *Breaker) RetryAfter(now time.Time) time.Duration {
	g := b.gate.Load()
	if g.openUntil.IsZero() {
		return 0
	}
	return max(g.openUntil.Sub(now), 0)
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
		b.steady.Store(false)
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
