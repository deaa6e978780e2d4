package proxy

import (
	"slices"
	"time"

	"sidecar/resilience/breaker"
)

// Observer hears what happened, from many goroutines at once. Its methods
// must not block and must not keep the values' strings alive as labels unless
// they come from the fixed sets below: Path and Method are the caller's words.
type Observer interface {
	// CallDone hears of every call exactly once, whatever its end.
	CallDone(Call)
	// AttemptDone hears of every request that the upstream could have seen,
	// and of every one that a drill kept from it, once its end is known.
	AttemptDone(Attempt)
	// BreakerChanged hears of every change of a breaker's state.
	BreakerChanged(dependency string, t breaker.Transition)
	// ShadowChanged hears of every change of a proposed breaker's state, which
	// refuses nobody.
	ShadowChanged(dependency string, t breaker.Transition)
	// DrillChanged hears of the beginning and the end of every drill.
	DrillChanged(dependency string, c DrillChange)
}

// Outcome is how a call ended for its caller.
type Outcome string

// The outcomes; every call has exactly one.
const (
	OutcomeOK       Outcome = "ok"       // the upstream's own answer, 4xx included
	OutcomeFailed   Outcome = "failed"   // a failure verdict, or the sidecar's own 4xx, 502 or 504
	OutcomeFallback Outcome = "fallback" // a stale copy or a static body
	OutcomeRejected Outcome = "rejected" // the sidecar's own 503
	OutcomeCanceled Outcome = "canceled" // the caller left, or never finished its request
)

// Outcomes lists every [Outcome].
var Outcomes = []Outcome{OutcomeOK, OutcomeFailed, OutcomeFallback, OutcomeRejected, OutcomeCanceled}

// Reason says why a call was refused or failed; empty where neither happened.
type Reason string

// The reasons, the same words in headers, metrics and logs.
const (
	ReasonOpen         Reason = "open"          // refused: the circuit is open
	ReasonProbing      Reason = "probing"       // refused: half-open, and the probes are under way
	ReasonQueueFull    Reason = "queue_full"    // refused: every permit and every waiting place is taken
	ReasonQueueTimeout Reason = "queue_timeout" // refused: waited queue_timeout for a permit
	ReasonConnect      Reason = "connect"       // failed: no connection to the upstream
	ReasonReset        Reason = "reset"         // failed: the connection ended without a whole answer
	ReasonTimeout      Reason = "timeout"       // failed: connect, attempt or call timeout of ours
	ReasonProtocol     Reason = "protocol"      // failed: what came back was no valid answer
	ReasonStatus       Reason = "status"        // failed: a status in failure.statuses
	ReasonDeadline     Reason = "deadline"      // the caller's own deadline passed
	ReasonRequest      Reason = "request"       // the sidecar's own 4xx: a request it cannot accept
	ReasonCanceled     Reason = "canceled"      // the caller left or stalled
)

// Refusals lists the reasons for which the sidecar refuses a call before
// anything is sent.
var Refusals = []Reason{ReasonOpen, ReasonProbing, ReasonQueueFull, ReasonQueueTimeout}

// Degraders lists the reasons for which a fallback may answer.
var Degraders = slices.Concat(Refusals, Failures, []Reason{ReasonDeadline})

// Failures lists the reasons for which an attempt at the upstream fails.
var Failures = []Reason{ReasonConnect, ReasonReset, ReasonTimeout, ReasonProtocol, ReasonStatus}

// Source names the fallback that answered.
type Source string

// The sources of a fallback.
const (
	SourceStale  Source = "stale"
	SourceStatic Source = "static"
)

// Sources lists every [Source].
var Sources = []Source{SourceStale, SourceStatic}

// Denial says why a retry that the policy wanted was not made.
type Denial string

// The denials; at most one is reported for a call.
const (
	DeniedBudget   Denial = "budget"   // the retry budget is spent
	DeniedBody     Denial = "body"     // the request body is larger than max_body_bytes
	DeniedMethod   Denial = "method"   // not idempotent, and something may have been sent
	DeniedBreaker  Denial = "breaker"  // the circuit opened, or the attempt was a probe
	DeniedDeadline Denial = "deadline" // the wait would end after the call's deadline
)

// Denials lists every [Denial].
var Denials = []Denial{DeniedBudget, DeniedBody, DeniedMethod, DeniedBreaker, DeniedDeadline}

// Call is one request of the app, told at its end.
type Call struct {
	Dependency string
	Method     string // the caller's; never a label
	Path       string // escaped, without the query; never a label
	Status     int    // sent to the caller; 499 where the caller left before any
	Outcome    Outcome
	Reason     Reason        // empty when nothing went wrong
	Refused    bool          // the sidecar refused before anything was sent; Reason is one of Refusals
	Source     Source        // the fallback that answered, or empty
	Age        time.Duration // of the stale copy that answered
	Attempts   int           // requests that the upstream could have seen, or that a drill kept from it
	Denied     Denial        // the first retry that was wanted and not made, or empty
	Waited     time.Duration // in the bulkhead's queue; 0 if the call did not wait
	Duration   time.Duration // from arrival to the last byte
	Stream     bool          // an event stream or an upgraded connection
	Drill      string        // that an attempt met, such as "latency 8s", or empty
}

// Result is how an attempt ended: success, canceled, or one of [Failures].
type Result string

// The results that are not a [Reason] of a failure.
const (
	ResultSuccess  Result = "success"
	ResultCanceled Result = "canceled"
)

// Results lists every [Result].
var Results = []Result{
	ResultSuccess, Result(ReasonStatus), Result(ReasonConnect), Result(ReasonReset),
	Result(ReasonTimeout), Result(ReasonProtocol), ResultCanceled,
}

// Attempt is one request that the upstream could have seen, or that a drill
// kept from it, told at its end.
type Attempt struct {
	Dependency string
	Result     Result
	Retry      bool          // not the call's first attempt
	Headers    time.Duration // from its start to the response headers, or to its end without any
	Status     int           // of the response; 0 without one
	GRPC       int           // gRPC's status of the response; 0 for OK, and for what is not gRPC
	Drill      Fault         // that it met, or empty
	Withheld   bool          // by the drill: nothing went to the upstream
}
