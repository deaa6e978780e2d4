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
	// hiddenFor is how long a fallback may answer before somebody should know: a
	// restart is over by then.
	hiddenFor = 5 * time.Minute
	// hiddenShare is the part of the calls that it must have answered.
	hiddenShare = 0.5
	// leastHidden is how many calls it must have answered in that time.
	leastHidden = 20

	// leastRetries and retryShare are how many retries, and how many for each first
	// attempt, are more than an occasional one.
	leastRetries = 50
	retryShare   = 0.10
	// helpful is the part of the retries that must succeed to be worth their load.
	helpful = 0.5
	// budgetOf is the budget that still helps with single faults: one retry for
	// ten calls.
	budgetOf = 0.1
)

// hiddenOutage: a fallback has answered for so long that an outage may have
// gone unnoticed.
func hiddenOutage(s *subject) *Finding {
	o := longestOutage(s.e.Steps)
	if o.lasted < hiddenFor || o.answered < leastHidden {
		return nil
	}
	when := "it has ended"
	if o.present {
		when = "it goes on"
	}
	c := &s.e.Counts
	f := &Finding{
		Kind: "hidden_outage", Severity: Warning, Title: "a fallback hides an outage",
		Evidence: fmt.Sprintf("for %s a fallback answered %s of %s (%s); in %s %s stale copies and %s static bodies went out",
			span(o.lasted), share(o.answered, o.calls), some(o.calls, "call"), when, span(s.e.Window),
			thousands(c[history.FromStale]), thousands(c[history.FromStatic])),
		Key: "log.report_interval", Current: written(s.c.Log.ReportInterval),
		Why: "Callers see answers, so nobody complains: repair the dependency, and have the log tell of the next time (alert on sidecar_fallbacks_total).",
	}
	if s.c.Log.ReportInterval <= 0 {
		f.Suggested = "1m"
		return f
	}
	f.Key, f.Current = "fallback", strconv.Itoa(len(s.d.Fallback))+" ways to answer"
	f.Why = "Callers see answers, so nobody complains: repair the dependency, and alert on sidecar_fallbacks_total."
	return f
}

// outage is a time in which a fallback answered most calls.
type outage struct {
	lasted          time.Duration
	answered, calls uint64
	present         bool // up to the last step
}

// longestOutage finds the longest one. Steps without calls neither begin nor
// end it.
func longestOutage(steps []history.Step) outage {
	var best, now outage
	var idle time.Duration
	for i := range steps {
		calls, fallback := steps[i].Calls(), steps[i].Fallback
		switch {
		case calls == 0:
			idle += history.StepLength
			continue
		case float64(fallback) < hiddenShare*float64(calls):
			now = outage{}
		default:
			if now.calls > 0 {
				now.lasted += idle
			}
			now.lasted += history.StepLength
			now.answered += uint64(fallback)
			now.calls += uint64(calls)
		}
		idle = 0
		if now.lasted >= best.lasted {
			best = now
		}
	}
	best.present = best == now && best.calls > 0
	return best
}

// retryStorm: retries meet the same trouble and add to it.
func retryStorm(s *subject) *Finding {
	made, good := s.e.Counts[history.Retries], s.e.Counts[history.RetriesSucceeded]
	if made < leastRetries || float64(made) < retryShare*float64(s.first) || float64(good) >= helpful*float64(made) {
		return nil
	}
	prefix, r := s.retries()
	if r == nil {
		return nil // they were made under settings of before
	}
	f := &Finding{
		Kind: "retry_storm", Severity: Warning, Title: "retries add load and hardly help",
		Evidence: fmt.Sprintf("%s retries of %s in %s made %s more load; %s of them succeeded, %d calls had no budget left",
			thousands(made), some(s.first, "first attempt"), span(s.e.Window),
			share(made, s.first), share(good, made), s.e.Counts[history.DeniedBudget]),
		Why: "A dependency that fails for all is not helped by asking it again: each retry holds a permit and delays the answer.",
	}
	budget := s.d.Retry.Budget
	switch {
	case r.MaxRetries > 1:
		f.Key, f.Current, f.Suggested = prefix+"retry.max_retries", strconv.Itoa(r.MaxRetries), "1"
	case float64(budget.MinPerSecond) > budget.Ratio*s.rate && budget.MinPerSecond > 0:
		f.Key, f.Current = "retry.budget.min_per_second", strconv.Itoa(budget.MinPerSecond)
		f.Suggested = strconv.Itoa(min(budget.MinPerSecond-1, int(math.Ceil(budgetOf*s.rate))))
	case budget.Ratio > budgetOf:
		f.Key, f.Current, f.Suggested = "retry.budget.ratio", number(budget.Ratio), number(budgetOf)
	default:
		f.Key, f.Current, f.Suggested = prefix+"retry.max_retries", strconv.Itoa(r.MaxRetries), "0"
	}
	return f
}

// retries returns the retry settings in use: the dependency's own, or those of
// its first route that has some.
func (s *subject) retries() (prefix string, r *config.Retry) {
	if s.d.Retry.MaxRetries > 0 {
		return "", &s.d.Retry
	}
	for i := range s.d.Routes {
		if s.d.Routes[i].Retry.MaxRetries > 0 {
			return "routes[" + strconv.Itoa(i) + "].", &s.d.Routes[i].Retry
		}
	}
	return "", nil
}
