// Package breaker is a circuit breaker: it watches how the attempts sent to one
// dependency end, and refuses further ones while they are bound to fail. The
// words used here are explained in package resilience, with a picture of the
// states.
//
// # Use
//
//	permit, err := b.Allow(now)
//	if err != nil {
//		return err // ErrOpen or ErrProbing: nothing may be sent
//	}
//	defer func() { permit.Done(time.Now(), breaker.Ignored) }() // the net under a panic
//	…
//	permit.Done(time.Now(), breaker.Success)
//
// The first Done settles the permit, later ones do nothing. Every method takes
// the time as an argument; the breaker reads no clock and starts no timer or
// goroutine. Of two readings that arrive out of order the later one counts:
// time never runs backwards inside a breaker. Calls that change nothing, such as
// an Allow in closed, leave no reading behind.
//
// Most calls change nothing and take no lock: Allow in closed, Allow in open, and
// the Done of a success while all outcomes in a window of calls are successes.
//
// # States
//
// Closed admits every attempt and records its outcome. After each outcome the
// rules are checked, and the first one that is met trips the circuit:
//
//   - at least Policy.MinCalls outcomes are in the window, at least one of them
//     is a failure, and failures/calls ≥ Policy.FailureRatio;
//   - Policy.ConsecutiveFailures failures came in a row, whatever MinCalls says;
//   - at least Policy.MinCalls outcomes are in the window, at least one of them
//     is slow, and slow/calls ≥ Policy.SlowCall.Ratio.
//
// Open refuses every attempt with ErrOpen until the cooldown is over. That
// follows from the clock alone, so a Snapshot shows it without any traffic. The
// window keeps what it held at the trip, for the reader of a Snapshot.
//
// HalfOpen admits Policy.Probes attempts and refuses all others with
// ErrProbing. One failed probe opens the circuit again; if all succeed it
// closes with an empty window; if the share of slow ones reaches
// Policy.SlowCall.Ratio it opens again as well. A probe that ends without a
// verdict gives its place back, so that half-open cannot hang.
//
// Every change of state, every Force and every Reset begins a new era. A permit
// belongs to the era in which it was granted: its outcome is dropped once that
// era is over. Hence late failures do not prolong a cooldown, and a late
// success does not close a circuit.
//
// # Modes
//
// Enforce refuses. Observe runs the same machine, but where an enforcing
// breaker would refuse it grants a permit whose WouldReject method returns
// true, counts it, and ignores its outcome; so the states are those that an
// enforcing breaker would have had. Off grants permits without effect and stays
// closed.
//
// An operator can force a breaker open, which then refuses in every mode, or
// closed, which then records outcomes but never trips. A forced state outlives
// SetPolicy and Reset.
package breaker
