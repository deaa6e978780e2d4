package config

import (
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// events are the retry conditions that are not HTTP statuses.
var events = []string{"connect", "reset", "timeout"}

// Statuses is a set of HTTP statuses, written as terms such as 503, 500-599
// and !501.
type Statuses []StatusTerm

// StatusTerm includes the statuses from Low to High, or with Not excludes them.
type StatusTerm struct {
	Low, High int
	Not       bool
}

// Match reports whether some term includes the status and none excludes it,
// whatever their order.
func (s Statuses) Match(code int) bool {
	in := false
	for _, t := range s {
		if t.Low <= code && code <= t.High {
			if t.Not {
				return false
			}
			in = true
		}
	}
	return in
}

// String returns the term as it is written in a file.
func (t StatusTerm) String() string {
	s := strconv.Itoa(t.Low)
	if t.High != t.Low {
		s += "-" + strconv.Itoa(t.High)
	}
	if t.Not {
		s = "!" + s
	}
	return s
}

// Includes reports whether an event (connect, reset or timeout) is retried.
func (r Retry) Includes(event string) bool { return slices.Contains(r.On, event) }

// Statuses returns the HTTP statuses that are retried.
func (r Retry) Statuses() Statuses {
	var s Statuses
	for _, on := range r.On {
		if t, ok := parseTerm(on); ok {
			s = append(s, t)
		}
	}
	return s
}

// parseTerm reads a term such as 503, 500-599 or !501.
func parseTerm(s string) (StatusTerm, bool) {
	rest, not := strings.CutPrefix(s, "!")
	low, high, isRange := strings.Cut(rest, "-")
	if !isRange {
		high = low
	}
	l, ok1 := parseStatus(low)
	h, ok2 := parseStatus(high)
	return StatusTerm{Low: l, High: h, Not: not}, ok1 && ok2 && l <= h
}

// parseStatus reads an HTTP status code, three digits (RFC 9110 §15).
func parseStatus(s string) (int, bool) {
	if len(s) != 3 || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil && 100 <= n && n <= 599
}

func (d *decoder) statusTerm(n *yaml.Node, p *StatusTerm, path string) {
	if n.Kind == yaml.ScalarNode {
		if t, ok := parseTerm(n.Value); ok {
			*p = t
			return
		}
	}
	d.wrongType(n, path, "an HTTP status (100 to 599) such as 503, 500-599 or !501")
}
