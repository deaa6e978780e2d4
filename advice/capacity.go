package advice

import (
	"fmt"
	"strconv"
	"time"

	"sidecar/history"
)

const (
	// leastSaturated is in how many seconds calls must have been refused while the
	// dependency was well: one that begins to hang fills its bulkhead for a second
	// or two before its circuit opens.
	leastSaturated = 10
	// saturatedShare is the part of all calls that must have been refused so.
	saturatedShare = 0.01
	// fastShare is the part of its bound that the 99th percentile of a fast
	// dependency takes at most.
	fastShare = 0.5

	// tooMany is how many times the permits needed are too many, and sparePermits
	// how many must be to spare: fewer harm nobody.
	tooMany      = 4
	sparePermits = 10
	// leastQuiet is how long the traffic must have been seen before permits are
	// called superfluous: a peak may be yet to come.
	leastQuiet = 10 * time.Minute
)

// fast reports whether the dependency is fast: far from what counts as slow,
// and from its bound.
func (s *subject) fast() bool {
	limit, _ := bound(&s.d.Policy)
	if slow := s.d.Breaker.SlowCall; slow != nil && (limit <= 0 || slow.After < limit) {
		limit = slow.After
	}
	return s.sized && (limit <= 0 || float64(s.p99) <= fastShare*float64(limit))
}

// tooFewPermits: the compartment is too small for a dependency that is well.
func tooFewPermits(s *subject) *Finding {
	refused, seconds := s.e.Counts[history.Saturated], s.e.Counts[history.SaturatedSeconds]
	if seconds < leastSaturated || float64(refused) < saturatedShare*float64(s.calls) || !s.fast() {
		return nil
	}
	b := &s.d.Bulkhead
	f := &Finding{
		Kind: "too_few_permits", Severity: Warning, Title: "calls are refused while the dependency is fast",
		Evidence: fmt.Sprintf("%s of %s in %s were refused for want of a permit, in %d different seconds without any failure; 99 %% of the answers took at most about %s, the busiest second had %s",
			thousands(refused), some(s.calls, "call"), span(s.e.Window), seconds, shown(s.p99), some(uint64(s.peak), "call")),
		Key: "bulkhead.max_concurrent", Current: strconv.Itoa(b.MaxConcurrent), Suggested: strconv.Itoa(s.permits()),
		Why: s.littlesLaw(),
	}
	switch {
	case s.permits() > b.MaxConcurrent:
	case s.e.Counts[history.RefusedQueueTimeout] > s.e.Counts[history.RefusedQueueFull]:
		f.Key, f.Current = "bulkhead.queue_timeout", written(b.QueueTimeout)
		f.Suggested = written(upDuration(max(2*b.QueueTimeout, s.queueTimeout())))
		f.Why = "The permits suffice for the rate; the calls come in bursts. A longer wait smooths them."
	default:
		f.Key, f.Current = "bulkhead.max_waiting", strconv.Itoa(b.MaxWaiting)
		f.Suggested = strconv.Itoa(upCount(max(2*float64(b.MaxWaiting), float64(s.queue()))))
		f.Why = "The permits suffice for the rate; the calls come in bursts. A longer queue smooths them."
	}
	return f
}

// littlesLaw tells how the permits were derived.
func (s *subject) littlesLaw() string {
	why := fmt.Sprintf("%s calls a second that take up to %s are %s at once; with room for their spread that is %d.",
		number(s.peak), shown(s.p99), number(s.load()), s.permits())
	if s.held > 0 {
		why = why[:len(why)-1] + fmt.Sprintf(", %s of them held by streams.", number(s.held))
	}
	return why
}

// tooManyPermits: the compartment is so large that it keeps nothing in.
func tooManyPermits(s *subject) *Finding {
	have, need := s.d.Bulkhead.MaxConcurrent, s.permits()
	if !s.sized || s.e.Window < leastQuiet || have < tooMany*need || have-need < sparePermits {
		return nil
	}
	return &Finding{
		Kind: "too_many_permits", Severity: Info, Title: "a slow dependency could hold far more than it needs",
		Evidence: fmt.Sprintf("in %s the busiest second had %s, and 99 %% of the answers took at most about %s",
			span(s.e.Window), some(uint64(s.peak), "call"), shown(s.p99)),
		Key: "bulkhead.max_concurrent", Current: strconv.Itoa(have), Suggested: strconv.Itoa(need),
		Why: s.littlesLaw() + " More only let it hold more of you when it hangs.",
	}
}
