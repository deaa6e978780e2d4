package advice

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"sidecar/config"
	"sidecar/history"
)

const (
	// decideWithin is how long a breaker may take to see that everything fails.
	decideWithin = 10 * time.Second
	// leastDeciding is how many attempts must have been seen before their rate
	// says that there will never be enough.
	leastDeciding = 20
	// windowsSeen is how many windows must have gone by for the same.
	windowsSeen = 3
	// smallestWindow and largestWindow bound the calls of a suggested window: of
	// fewer a share is mere chance, of more it is slow to change.
	smallestWindow = 5
	largestWindow  = 100
)

// ratioRules reports whether the breaker decides by shares of a window alone.
func (s *subject) ratioRules() bool { return s.deciding() && s.d.Breaker.ConsecutiveFailures == 0 }

// neverDecides: the window never holds min_calls, so no share is ever looked
// at.
func neverDecides(s *subject) *Finding {
	b := &s.d.Breaker
	judged := s.e.Counts.Judged()
	if !s.ratioRules() || judged < leastDeciding {
		return nil
	}
	f := &Finding{
		Kind: "never_decides", Severity: Warning, Title: "the breaker never has enough calls to decide",
		Key: "breaker.min_calls", Current: strconv.Itoa(b.MinCalls),
		Why: "Below min_calls no share of failures opens the circuit, not even all of them.",
	}
	if b.Window.Calls > 0 {
		if b.MinCalls <= b.Window.Calls {
			return nil
		}
		f.Evidence = fmt.Sprintf("the window holds %d calls and min_calls asks for %d; %s in %s, none of which could count",
			b.Window.Calls, b.MinCalls, some(judged, "attempt"), span(s.e.Window))
		f.Suggested = strconv.Itoa(min(config.DefaultDependency().Breaker.MinCalls, b.Window.Calls))
		return f
	}
	most := s.mostWithin(b.Window.Span)
	if s.e.Window < windowsSeen*b.Window.Span || most >= uint64(b.MinCalls) { //nolint:gosec // at least 1
		return nil
	}
	f.Evidence = fmt.Sprintf("%s in %s; at most %d within one window of %s, and min_calls asks for %d",
		some(judged, "attempt"), span(s.e.Window), most, written(b.Window.Span), b.MinCalls)
	// Half of what a window usually holds, so that most windows do.
	if half := min(s.attemptRate()*b.Window.Span.Seconds(), float64(most)) / 2; half >= smallestWindow {
		f.Suggested = strconv.Itoa(downCount(half))
		return f
	}
	f.Key, f.Current = "breaker.window", written(b.Window.Span)
	f.Suggested = strconv.Itoa(max(config.DefaultDependency().Breaker.Window.Calls, b.MinCalls))
	f.Why += " A window of the last calls waits for them, however rare they are."
	return f
}

// mostWithin returns the most attempts that ended within a span of time, to
// whole steps.
func (s *subject) mostWithin(window time.Duration) uint64 {
	n := int((window + history.StepLength - 1) / history.StepLength)
	var sum, most uint64
	for i := range s.e.Steps {
		sum += uint64(s.e.Steps[i].Attempts)
		if i >= n {
			sum -= uint64(s.e.Steps[i-n].Attempts)
		}
		most = max(most, sum)
	}
	return most
}

// attemptRate returns the attempts a second, mean.
func (s *subject) attemptRate() float64 { return float64(s.attempts) / s.e.Window.Seconds() }

// hangRate returns how many attempts a second end when all hang: their permits
// and their bound allow no more.
func (s *subject) hangRate(permits int, limit time.Duration) float64 {
	if limit <= 0 {
		return 0
	}
	return math.Min(s.attemptRate(), float64(permits)/limit.Seconds())
}

// decideIn returns how long the breaker takes to open once every call hangs
// until the limit, from a window full of successes; 0 where it never does.
func (s *subject) decideIn(w config.Window, permits int, limit time.Duration) time.Duration {
	hang, usual, share := s.hangRate(permits, limit), s.attemptRate(), s.d.Breaker.FailureRatio
	if hang <= 0 {
		return 0
	}
	seconds := math.Max(1, share*float64(w.Calls)) / hang
	if w.Calls == 0 {
		// The old successes leave the window at the usual rate, failures come at
		// the lower one: share = hang·t / (hang·t + usual·(span−t)).
		seconds = share * usual * w.Span.Seconds() / (hang*(1-share) + usual*share)
	}
	return limit + time.Duration(seconds*float64(time.Second))
}
