// Package retry holds the three decisions about trying again: how long to
// wait ([Backoff]), whether there is leave to try at all ([Budget]), and what
// the upstream asked for ([After]). Whether a request may be repeated is not
// decided here.
//
// Nothing in this package reads a clock, sleeps or draws a random number: the
// present time and the random number are arguments.
//
// # Backoff
//
// Exponential with full jitter: before the n-th retry, counted from 0, a
// call waits a time drawn uniformly from 0 to min(Max, Base·2ⁿ). Callers that
// failed together so do not come back together (M. Brooker, "Exponential
// Backoff And Jitter", AWS Architecture Blog, 2015).
//
// # Budget
//
// Retries help against a rare failure and multiply the load in an outage. The
// budget bounds them for a whole dependency: in every second, the retries
// begun are at most the larger of MinPerSecond and Ratio times the calls
// begun. With the default ratio of 0.2 an outage costs the upstream a fifth
// more load, whatever the number of retries that each call may make.
//
// # Settings
//
//   - [Backoff].Base, Max: durations; at 0 retries do not wait.
//   - [BudgetPolicy].Ratio: retries for each call, 0 to 1 (larger works too).
//   - [BudgetPolicy].MinPerSecond: retries in a second that are always free,
//     so that a dependency with few calls can retry at all; 0 for none.
package retry

import "time"

// Backoff is the waiting time between the attempts of a call.
type Backoff struct {
	Base time.Duration // upper bound of the first wait
	Max  time.Duration // upper bound of every wait
}

// Delay returns the wait before the n-th retry, counted from 0:
// r·min(Max, Base·2ⁿ) for a random r in [0,1). It never overflows, and is 0
// where Base or Max is not positive. An r outside its range counts as the
// nearest end.
func (b Backoff) Delay(n int, r float64) time.Duration {
	if b.Base <= 0 || b.Max <= 0 || !(r > 0) {
		return 0
	}
	bound := b.Max
	if n = max(n, 0); n < 63 && b.Base <= b.Max>>n {
		bound = b.Base << n
	}
	if r >= 1 {
		return bound
	}
	return time.Duration(r * float64(bound))
}
