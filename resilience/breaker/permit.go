package breaker

import "time"

// Permit is leave for one attempt. The first Done settles it; later ones do
// nothing, so a deferred Done(Ignored) is a safe net under a panic. The zero
// value is harmless: it belongs to no breaker and settles nothing.
//
// A Permit must not be copied once it is in use, as each copy could be settled.
// Its methods are safe for concurrent use, so that a timer may judge a probe
// whose body is still flowing.
type Permit struct {
	breaker     *Breaker
	era         uint64
	recoveredAt time.Time
	counts      bool // the breaker waits for its outcome
	probe       bool
	wouldReject bool
	settled     bool // guarded by breaker.mu; all other fields are immutable
}

// Done tells the breaker how the attempt ended. An outcome that comes after the
// breaker has begun a new era is dropped.
func (p *Permit) Done(now time.Time, o Outcome) {
	if p.counts {
		p.breaker.settle(p, now, o)
	}
}

// Probe reports whether the attempt was admitted in half-open. It must not be
// retried, and its outcome must come soon: others are refused meanwhile.
func (p *Permit) Probe() bool { return p.probe }

// WouldReject reports, in observe mode, that an enforcing breaker would have
// refused the attempt. Its outcome is ignored.
func (p *Permit) WouldReject() bool { return p.wouldReject }

// Live reports whether the breaker is still in the era in which the permit was
// granted. A call that has waited for something else meanwhile asks Allow again
// if it is not: that answers rightly in every mode.
func (p *Permit) Live() bool {
	if p.breaker == nil {
		return true
	}
	p.breaker.mu.Lock()
	defer p.breaker.mu.Unlock()
	return p.era == p.breaker.era
}

// RecoveredAt returns when successful probes closed the circuit, if that is how
// the present closed era began; else the zero time. It is zero in the modes
// Observe and Off too. A bulkhead counts its ramp from it.
func (p *Permit) RecoveredAt() time.Time { return p.recoveredAt }
