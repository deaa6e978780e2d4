package breaker

import (
	"sync/atomic"
	"time"
)

// Permit is leave for one attempt. The first Done settles it; later ones do
// nothing, so a deferred Done(Ignored) is a safe net under a panic. The zero
// value is harmless: it belongs to no breaker and settles nothing.
//
// A Permit must not be copied once it is in use, as each copy could be settled.
// Its methods are safe for concurrent use, so that a timer may judge a probe
// whose body is still flowing.
type Permit struct {
	// Four fields, so that the compiler returns them in registers and stores each
	// once.
	gate    *gate // of the era and mode in which it was granted
	kind    kind
	settled bool   // guarded by breaker.mu
	spent   uint32 // 1 after a Done that needed no lock; atomic
}

// kind says what a permit is for.
type kind int8

const (
	idle      kind = iota // nothing: its outcome is not waited for
	counted               // a call in closed
	probe                 // a call in half-open
	overruled             // a call that an enforcing breaker would have refused
)

// Done tells the breaker how the attempt ended. An outcome that comes after the
// breaker has begun a new era is dropped.
func (p *Permit) Done(now time.Time, o Outcome) {
	switch {
	case p.kind == idle || p.kind == overruled:
	case p.kind == counted && (o == Ignored || o == Success && p.gate.breaker.steady.Load()):
		// It changes nothing, be the permit settled or its era over or not. So it
		// does not matter either which of two that come at once is the first.
		atomic.StoreUint32(&p.spent, 1)
	default:
		p.gate.breaker.settle(p, now, o)
	}
}

// Probe reports whether the attempt was admitted in half-open. It must not be
// retried, and its outcome must come soon: others are refused meanwhile.
func (p *Permit) Probe() bool { return p.kind == probe }

// WouldReject reports, in observe mode, that an enforcing breaker would have
// refused the attempt. Its outcome is ignored.
func (p *Permit) WouldReject() bool { return p.kind == overruled }

// Live reports whether the breaker is still in the era in which the permit was
// granted. A call that has waited for something else meanwhile asks Allow again
// if it is not: that answers rightly in every mode.
func (p *Permit) Live() bool {
	return p.gate == nil || p.gate.era == p.gate.breaker.gate.Load().era
}

// RecoveredAt returns when successful probes closed the circuit, if that is how
// the present closed era began; else the zero time. It is zero in the modes
// Observe and Off too. A bulkhead counts its ramp from it.
func (p *Permit) RecoveredAt() time.Time {
	if p.gate == nil {
		return time.Time{}
	}
	return p.gate.recoveredAt
}
