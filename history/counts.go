package history

// Counter is the place of one number in [Counts].
type Counter int

// The counters. Those of a group stand in the order in which the proxy lists
// its words: outcomes, results, refusals, denials, sources.
const (
	// Calls that have ended, by outcome.
	OK Counter = iota
	Failed
	Fallback
	Rejected
	Canceled

	// Attempts that have ended, by result.
	AttemptSuccess
	AttemptStatus
	AttemptConnect
	AttemptReset
	AttemptTimeout
	AttemptProtocol
	AttemptCanceled

	// Calls refused before anything was sent, by reason.
	RefusedOpen
	RefusedProbing
	RefusedQueueFull
	RefusedQueueTimeout

	// Attempts beyond a call's first, and those of them that succeeded.
	Retries
	RetriesSucceeded

	// Calls with a retry that was wanted and not made, by reason.
	DeniedBudget
	DeniedBody
	DeniedMethod
	DeniedBreaker
	DeniedDeadline

	// Calls that a fallback answered, by source.
	FromStale
	FromStatic

	// Changes of the circuit's state, by the new one.
	ToClosed
	ToHalfOpen
	ToOpen

	// Saturated counts the calls refused for want of a permit in the seconds in
	// which the circuit was closed, the bulkhead had all its permits (no ramp)
	// and no attempt failed; SaturatedSeconds counts these seconds. The recorder
	// counts both.
	Saturated
	SaturatedSeconds

	// Passed is the first of the answers that look like errors and were judged
	// successes, by [ErrorAnswers].
	Passed

	// Counters is how many there are.
	Counters = int(Passed) + errorAnswers
)

// Counts holds a number for each [Counter].
type Counts [Counters]uint64

// sum adds up a range of counters, both ends included.
func (c *Counts) sum(first, last Counter) uint64 {
	var n uint64
	for _, v := range c[first : last+1] {
		n += v
	}
	return n
}

// Calls returns the calls that have ended.
func (c *Counts) Calls() uint64 { return c.sum(OK, Canceled) }

// Attempts returns the attempts that have ended.
func (c *Counts) Attempts() uint64 { return c.sum(AttemptSuccess, AttemptCanceled) }

// Failures returns the attempts that failed.
func (c *Counts) Failures() uint64 { return c.sum(AttemptStatus, AttemptProtocol) }

// Judged returns the attempts that were a success or a failure.
func (c *Counts) Judged() uint64 { return c[AttemptSuccess] + c.Failures() }

// PassedErrors returns the answers that look like errors and were judged
// successes.
func (c *Counts) PassedErrors() uint64 { return c.sum(Passed, Counter(Counters-1)) }

// add adds what was counted between two cumulative counts.
func (c *Counts) add(before, now *Counts) {
	for i := range c {
		c[i] += now[i] - before[i]
	}
}
