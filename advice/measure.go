package advice

import (
	"math"
	"slices"
	"time"

	"sidecar/history"
)

const (
	// leastServed is how many calls a 99th percentile needs: that of fewer is the
	// slowest call or two.
	leastServed = 200
	// leastWindow is how long the traffic must have been seen before a size is
	// derived from it.
	leastWindow = time.Minute
	// cutShare is the share of attempts that may have run into a timeout before
	// the 99th percentile of the others says nothing of how long they would take.
	cutShare = 0.01
	// leastCalm is how many steps must have been calm before what permits are
	// held in them counts: a minute.
	leastCalm = 12
	// crowdedSteps is in how many steps calls must have waited, or nearly all
	// permits been taken, to say that they are scarce; nearlyAll is that share.
	crowdedSteps = 3
	nearlyAll    = 0.8
)

// measures are numbers drawn from the evidence that several rules need.
type measures struct {
	calls, attempts, first uint64  // first: attempts that were no retries
	rate                   float64 // calls a second, mean
	peak                   float64 // calls a second, busiest second while the circuit was closed
	held                   float64 // permits that never came free within a step: streams
	crowded                bool    // permits were scarce although nothing failed

	sized         bool          // enough was seen for p50 and p99
	p50, p99      time.Duration // of calls answered well: how long each held its permit
	attemptP99    time.Duration // of attempts that succeeded, to their headers
	attemptsTimed bool          // enough was seen for attemptP99, and it was not cut off
}

func measure(e *history.Evidence) measures {
	c := &e.Counts
	m := measures{calls: c.Calls(), attempts: c.Attempts()}
	m.first = m.attempts - min(m.attempts, c[history.Retries])
	if e.Window > 0 {
		m.rate = float64(m.calls) / e.Window.Seconds()
	}
	var held []int32
	crowded := 0
	for i := range e.Steps {
		s := &e.Steps[i]
		if s.State != history.Closed {
			continue
		}
		m.peak = max(m.peak, float64(s.Peak))
		if s.Failed == 0 && (s.Waiting > 0 || float64(s.InUse) >= nearlyAll*float64(s.Limit)) {
			crowded++
		}
		if s.Failed == 0 && s.Rejected == 0 {
			held = append(held, s.Held)
		}
	}
	if len(held) >= leastCalm {
		slices.Sort(held)
		m.held = float64(held[len(held)*9/10])
	}
	m.crowded = crowded >= crowdedSteps || c[history.Saturated] > 0
	timely := float64(c[history.AttemptTimeout]) <= cutShare*float64(m.attempts)
	if e.Window < leastWindow {
		return m
	}
	if e.Served.Total() >= leastServed && m.peak > 0 {
		m.sized, m.p50, m.p99 = true, e.Served.Quantile(0.50), e.Served.Quantile(0.99)
	}
	if e.Attempts.Total() >= leastServed && timely {
		m.attemptsTimed, m.attemptP99 = true, e.Attempts.Quantile(0.99)
	}
	return m
}

// load returns the calls that are there at once: Little's law.
func (m *measures) load() float64 { return m.peak * m.p99.Seconds() }

// spread is how many standard deviations of the number of calls there at once
// are kept free: three are exceeded about once in a thousand moments.
const spread = 3

// permits returns how many permits the traffic needs, at least fewestPermits.
func (m *measures) permits() int {
	load := m.load()
	return max(fewestPermits, upCount(load+spread*math.Sqrt(load)+m.held))
}

// fewestPermits is the least that is suggested: with fewer a single slow call
// would be felt by its neighbours.
const fewestPermits = 4
