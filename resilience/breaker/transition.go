package breaker

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Transition is a change of state. It is a plain value.
type Transition struct {
	From, To State
	// At is when the state changed. The end of a cooldown is found at the next
	// use of the breaker, yet At is the end itself.
	At     time.Time
	Reason string
	// OpenUntil is the end of the cooldown; zero unless the circuit opened by
	// the rules.
	OpenUntil time.Time
}

// advance lets the clock act: an open circuit whose cooldown is over becomes
// half-open. It returns the time to go on with, which is the latest one seen,
// as a caller may have read the clock before another one that was served first.
func (b *Breaker) advance(now time.Time) time.Time {
	if now.Before(b.latest) {
		now = b.latest
	}
	b.latest = now
	if b.state == Open && b.forced == Auto && !now.Before(b.openUntil) {
		b.enter(b.openUntil, HalfOpen, "cooldown over", time.Time{})
	}
	return now
}

// open begins a cooldown.
func (b *Breaker) open(now time.Time, reason string) {
	d := cooldown(&b.policy, b.failedProbes, rand.Float64())
	b.enter(now, Open, reason, now.Add(d))
}

// reopen ends a half-open era against the dependency: the cooldown grows.
func (b *Breaker) reopen(now time.Time, reason string) {
	b.failedProbes++
	b.open(now, reason)
}

// closeRecovered ends a half-open era in favour of the dependency.
func (b *Breaker) closeRecovered(now time.Time) {
	reason := fmt.Sprintf("%d of %d probes succeeded", b.successes, b.successes)
	b.restart(now, reason)
	if b.policy.Mode == Enforce {
		b.recoveredAt = now
	}
}

// restart forgets what was learnt and returns to closed; a circuit that was
// forced open stays open.
func (b *Breaker) restart(now time.Time, reason string) {
	b.failedProbes = 0
	if b.forced == ForcedOpen {
		b.clear()
		return
	}
	b.enter(now, Closed, reason, time.Time{})
}

// enter begins a new era. It is the only place where the state changes. The
// state may be the same as before, which is a new era, but no Transition.
func (b *Breaker) enter(at time.Time, to State, reason string, openUntil time.Time) {
	from := b.state
	if from == Open {
		b.openTime += at.Sub(b.since)
	}
	b.era++
	b.steady.Store(false)
	b.state, b.since, b.reason = to, at, reason
	b.openUntil, b.recoveredAt = openUntil, time.Time{}
	b.probing, b.successes, b.slowProbes = 0, 0, 0
	if to == Closed {
		b.clear()
	}
	if to == from {
		return
	}
	if to == Open {
		b.openedTotal++
	}
	if b.notify != nil {
		b.pending = append(b.pending, Transition{
			From: from, To: to, At: at, Reason: reason, OpenUntil: openUntil,
		})
	}
}

// clear empties the evidence of closed.
func (b *Breaker) clear() {
	b.steady.Store(false)
	b.window.clear()
	b.run = 0
}

// unlockAndNotify publishes what has changed, unlocks the mutex and then tells
// the listener of it. If another goroutine is telling it already, that one goes
// on with these changes, so that they are heard in order.
func (b *Breaker) unlockAndNotify() {
	b.publish()
	if len(b.pending) == 0 || b.notifying {
		b.mu.Unlock()
		return
	}
	b.tell()
}

// tell tells the listener of all pending changes, and unlocks the mutex.
func (b *Breaker) tell() {
	b.notifying = true
	for len(b.pending) > 0 {
		told := b.pending
		b.pending = nil
		b.mu.Unlock()
		for _, t := range told {
			b.notify(t)
		}
		b.mu.Lock()
	}
	b.notifying = false
	b.mu.Unlock()
}
