package breaker

import "time"

// State says what a breaker does with attempts at present. The numbers are
// those of the metric sidecar_breaker_state.
type State int8

// The states of a circuit.
const (
	Closed   State = 0 // every attempt is admitted
	HalfOpen State = 1 // only probes are admitted
	Open     State = 2 // every attempt is refused
)

// String returns the state as it appears in log, metrics and API: "closed",
// "half_open" or "open".
func (s State) String() string {
	switch s {
	case Closed:
		return "closed"
	case HalfOpen:
		return "half_open"
	case Open:
		return "open"
	}
	return "unknown"
}

// Mode says whether a breaker acts on its decisions.
type Mode int8

// The modes of a breaker.
const (
	Enforce Mode = iota // decides and refuses
	Observe             // decides, refuses nothing
	Off                 // decides nothing
)

// String returns the mode as it is written in the configuration: "enforce",
// "observe" or "off".
func (m Mode) String() string {
	switch m {
	case Enforce:
		return "enforce"
	case Observe:
		return "observe"
	case Off:
		return "off"
	}
	return "unknown"
}

// Forced says whether an operator has taken the decision over.
type Forced int8

// The orders an operator can give.
const (
	Auto         Forced = iota // none: the rules decide
	ForcedOpen                 // refuse everything, in every mode
	ForcedClosed               // admit everything, never trip
)

// String returns the order as it is written in the API: "auto", "open" or
// "closed".
func (f Forced) String() string {
	switch f {
	case Auto:
		return "auto"
	case ForcedOpen:
		return "open"
	case ForcedClosed:
		return "closed"
	}
	return "unknown"
}

// Outcome says how an attempt ended. It is a set of bits: Slow may stand beside
// Success or Failure. A set with both Success and Failure is a failure.
type Outcome uint8

// The outcomes of an attempt.
const (
	// Ignored, the zero value, says nothing about the dependency: the caller
	// left, or the attempt was never sent.
	Ignored Outcome = 0

	Success Outcome = 1 << 0
	Failure Outcome = 1 << 1

	// Slow says that the headers came later than SlowCall.After. Alone it is an
	// attempt that was abandoned after that time: it counts as a call and as
	// slow, but as neither success nor failure; it neither ends nor prolongs a
	// run of failures, and as a probe it gives its place back.
	Slow Outcome = 1 << 2
)

// has reports whether the set contains the given bit.
func (o Outcome) has(bit Outcome) bool { return o&bit != 0 }

// Window bounds the outcomes that the ratio rules look at. Exactly one field is
// set; the zero value holds nothing, so that the ratio rules never trip.
type Window struct {
	// Calls is a number of outcomes: the window holds the latest ones.
	Calls int
	// Span is an age: the window holds the outcomes of that last time. They
	// are kept in sixty steps and forgotten a step at a time, so an outcome
	// counts for at most Span and for at least 59/60 of it.
	Span time.Duration
}

// SlowCall is the rule about slow attempts. The zero value is no rule.
type SlowCall struct {
	// After is the time to the response headers from which an attempt is slow.
	// Callers measure it; here it only names the rule in a Reason.
	After time.Duration
	// Ratio of slow calls at which the circuit trips, above 0 and up to 1.
	// 0 means that the rule is not used.
	Ratio float64
}

// Mark adds Slow to the outcome of an attempt that waited so long for its
// headers, if the rule says so. A wait of 0 is none.
func (s SlowCall) Mark(o Outcome, wait time.Duration) Outcome {
	if s.Ratio > 0 && wait > 0 && wait >= s.After {
		return o | Slow
	}
	return o
}

// Backoff makes the cooldown grow with each failed probe in a row. The zero
// value is a constant cooldown.
type Backoff struct {
	// Factor multiplies the cooldown per failed probe. At 1 or below the
	// cooldown is constant and Max has no effect.
	Factor float64
	// Max is the longest cooldown before jitter; 0 means no bound.
	Max time.Duration
}

// Policy holds the settings of a breaker. It is a plain value; a breaker takes
// a copy. The zero value never trips.
type Policy struct {
	Mode   Mode
	Window Window
	// MinCalls is the number of outcomes in the window from which the ratio
	// rules apply. Above Window.Calls they never do.
	MinCalls int
	// FailureRatio of failures among the calls of the window, 0 to 1, at which
	// the circuit trips. With 0 a single failure is enough.
	FailureRatio float64
	// ConsecutiveFailures is the number of failures in a row that trips the
	// circuit; 0 means that the rule is not used.
	ConsecutiveFailures int
	SlowCall            SlowCall
	// Cooldown is the time a circuit stays open before probes are admitted.
	Cooldown time.Duration
	Backoff  Backoff
	// Jitter spreads each cooldown uniformly by up to this share of it in both
	// directions, 0 to 1; 0 is exact.
	Jitter float64
	// Probes is the number of successful probes that closes the circuit, and
	// the most that are in flight at a time. Below 1 it is taken as 1.
	Probes int
}

// sound returns the policy with out-of-range values moved to the nearest
// harmless ones. The configuration refuses them long before; this keeps a
// breaker from hanging should one come through.
func (p Policy) sound() Policy {
	p.Probes = max(p.Probes, 1)
	p.Cooldown = max(p.Cooldown, 0)
	p.Jitter = min(max(p.Jitter, 0), 1)
	p.Window.Calls = max(p.Window.Calls, 0)
	p.Window.Span = max(p.Window.Span, 0)
	return p
}
