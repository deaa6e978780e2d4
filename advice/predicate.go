package advice

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sidecar/config"
	"sidecar/history"
)

const (
	// leastErrors and errorShare are how many answers, and which part of all, must
	// look like errors: below, they may be a few requests that are wrong.
	leastErrors = 20
	errorShare  = 0.10
	// blindShare is the part of the error answers that must have passed as
	// successes: a predicate that sees more than the rest is not blind.
	blindShare = 0.9
	// namedShare is the part of the errors that one of them must be to be worth
	// counting as a failure.
	namedShare = 0.05
)

// blindPredicate: what the dependency calls errors, the breaker calls
// successes.
func blindPredicate(s *subject) *Finding {
	c := &s.e.Counts
	passed := c.PassedErrors()
	seen := passed + c[history.AttemptStatus]
	if !s.deciding() || passed < leastErrors ||
		float64(passed) < errorShare*float64(s.attempts) || float64(passed) < blindShare*float64(seen) {
		return nil
	}
	f := &Finding{
		Kind: "blind_predicate", Severity: Warning, Title: "errors pass as successes",
		Why: "The breaker judges by failure.statuses and failure.grpc_statuses alone: for it this dependency is well, whatever its answers say.",
	}
	named := s.unseen(f, "", &s.d.Failure, passed)
	for i := range s.d.Routes {
		if f.Key == "" {
			s.unseen(f, "routes["+strconv.Itoa(i)+"].", &s.d.Routes[i].Failure, passed)
		}
	}
	if f.Key == "" {
		return nil // they passed under settings of before
	}
	f.Evidence = fmt.Sprintf("%s of %s in %s were answered with an error (%s); %d counted as failures",
		share(seen, s.attempts), some(s.attempts, "attempt"), span(s.e.Window), named, c[history.AttemptStatus])
	return f
}

// unseen names the common errors that passed, with their numbers, and sets the
// finding's key and values where a predicate does not see them.
func (s *subject) unseen(f *Finding, prefix string, now *config.Failure, passed uint64) (named string) {
	statuses, grpc := now.Statuses, slices.Clone(now.GRPCStatuses)
	var names []string
	for i, answer := range history.ErrorAnswers {
		n := s.e.Counts[int(history.Passed)+i]
		if float64(n) < namedShare*float64(passed) {
			continue
		}
		names = append(names, answer+": "+thousands(n))
		code, err := strconv.Atoi(answer)
		switch {
		case answer == "5xx":
			statuses = include(statuses, 506, 599)
		case err == nil:
			statuses = include(statuses, code, code)
		case !slices.Contains(grpc, answer):
			grpc = append(grpc, answer)
		}
	}
	switch {
	case len(grpc) > len(now.GRPCStatuses):
		f.Key, f.Current, f.Suggested = prefix+"failure.grpc_statuses", flow(now.GRPCStatuses), flow(grpc)
	case !slices.Equal(statuses, now.Statuses):
		f.Key, f.Current, f.Suggested = prefix+"failure.statuses", flow(terms(now.Statuses)), flow(terms(statuses))
	}
	return strings.Join(names, ", ")
}

// include makes a set of statuses contain those from low to high.
func include(s config.Statuses, low, high int) config.Statuses {
	var next config.Statuses
	for _, t := range s {
		if !t.Not || t.High < low || t.Low > high {
			next = append(next, t)
			continue
		}
		if t.Low < low {
			next = append(next, config.StatusTerm{Low: t.Low, High: low - 1, Not: true})
		}
		if t.High > high {
			next = append(next, config.StatusTerm{Low: high + 1, High: t.High, Not: true})
		}
	}
	for code := low; code <= high; code++ {
		if !next.Match(code) {
			return append(next, config.StatusTerm{Low: low, High: high})
		}
	}
	return next
}

// terms are the statuses as they are written.
func terms(s config.Statuses) []string {
	all := make([]string, len(s))
	for i, t := range s {
		all[i] = t.String()
	}
	return all
}

// flow is a list as it is written on one line.
func flow(list []string) string {
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = strconv.Quote(s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}
