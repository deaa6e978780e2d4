package advice

import (
	"fmt"
	"time"

	"sidecar/config"
	"sidecar/history"
)

const (
	// farAbove is how many times the 99th percentile a bound must be to be far
	// above it: what takes ten times as long will hardly come.
	farAbove = 10
	// aboveSlow is how many times slow_call.after a bound may be: slow answers are
	// to be seen as such, and two or three times as late they still are.
	aboveSlow = 4
	// worthGaining is how much shorter a bound must become to be worth a word.
	worthGaining = time.Second

	// leastLeft and leftShare are how many callers, and which part of all calls,
	// must have left: people close pages all the time.
	leastLeft = 20
	leftShare = 0.02
	// alike is how close the ninetieth percentile of their waits must be to the
	// tenth: clients' timeouts are alike, people are not.
	alike = 1.5
	// inexact is the part of a bound within which a wait counts as as long: a
	// histogram knows no better.
	inexact = 10
	// withinPatience is the part of the callers' patience that the sidecar may
	// use: the rest is for the way and for the fallback's answer.
	withinPatience = 0.8
)

// bound returns how long an attempt may take, and the key that says so; 0 for
// no bound.
func bound(p *config.Policy) (time.Duration, string) {
	if a := p.AttemptTimeout; a > 0 && (p.Timeout <= 0 || a <= p.Timeout) {
		return a, "attempt_timeout"
	}
	return p.Timeout, "timeout"
}

// longTimeout: the wait for an answer is bounded far beyond any answer.
func longTimeout(s *subject) *Finding {
	if !s.attemptsTimed {
		return nil
	}
	limit, _ := bound(&s.d.Policy)
	next := s.attemptTimeout()
	slow := s.d.Breaker.SlowCall
	far := limit <= 0 || limit >= farAbove*s.attemptP99
	beyond := slow != nil && s.deciding() && s.attemptP99 < slow.After && limit > aboveSlow*slow.After
	if !far && !beyond || limit > 0 && limit-next < worthGaining {
		return nil
	}
	f := &Finding{
		Kind: "long_timeout", Severity: Info, Title: "a hanging call is waited for far too long",
		Evidence: fmt.Sprintf("99 %% of %s in %s had their headers within about %s; the bound is %s",
			some(s.e.Attempts.Total(), "successful attempt"), span(s.e.Window), shown(s.attemptP99), bounded(limit)),
		Key: "attempt_timeout", Current: written(s.d.AttemptTimeout), Suggested: written(next),
		Why: "Until it is over, each hanging call holds its permit and its caller, and the breaker learns nothing.",
	}
	if beyond {
		f.Evidence += ", slow_call.after " + written(slow.After)
	}
	if n := s.e.Counts[history.AttemptTimeout]; n > 0 {
		f.Severity = Warning
		f.Evidence += "; " + some(n, "attempt") + " ran into it"
	}
	return f
}

func bounded(limit time.Duration) string {
	if limit <= 0 {
		return "none"
	}
	return written(limit)
}

// impatientCallers: callers' own timeouts are shorter than ours.
func impatientCallers(s *subject) *Finding {
	left := &s.e.Left
	n := left.Total()
	if n < leastLeft || float64(n) < leftShare*float64(s.calls) {
		return nil
	}
	early, middle, late := left.Quantile(0.1), left.Quantile(0.5), left.Quantile(0.9)
	if float64(late) > alike*float64(early) {
		return nil
	}
	for i := range s.d.Routes {
		if b := longest(&s.d.Routes[i].Policy); b > 0 && b-b/inexact <= middle {
			return nil // these calls may be the route's
		}
	}
	ours := longest(&s.d.Policy)
	if ours > 0 && ours-ours/inexact <= middle {
		return nil
	}
	f := &Finding{
		Kind: "impatient_callers", Severity: Warning, Title: "callers give up before the sidecar does",
		Evidence: fmt.Sprintf("%s of %s in %s were left by their callers, most of them after %s to %s; the sidecar would have waited %s",
			thousands(n), some(s.calls, "call"), span(s.e.Window), shown(early), shown(late), bounded(ours)),
		Key: "timeout", Current: written(s.d.Timeout),
		Why: "A caller that has left gets no fallback and tells the breaker nothing. A shorter timeout gives it an answer, and the breaker a failure.",
	}
	if next := downDuration(time.Duration(withinPatience * float64(early))); !s.sized || next > s.p99 {
		f.Suggested = written(next)
	} else {
		f.Why = "But 99 % of the answers take up to " + shown(s.p99) + ": a shorter timeout here would fail good calls. Raise the callers' own timeout."
	}
	return f
}

// longest returns how long a call may last before it is answered, 0 for no
// bound.
func longest(p *config.Policy) time.Duration {
	if p.AttemptTimeout <= 0 {
		return p.Timeout
	}
	all := time.Duration(1+p.Retry.MaxRetries) * (p.AttemptTimeout + p.Retry.Backoff.Max)
	if p.Retry.MaxRetries == 0 {
		all = p.AttemptTimeout
	}
	if p.Timeout > 0 {
		return min(p.Timeout, all)
	}
	return all
}
