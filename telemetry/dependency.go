package telemetry

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sidecar/proxy"
	"sidecar/resilience/breaker"
)

// tally counts events by a fixed set of words. It is safe for concurrent use.
type tally[W ~string] struct {
	words  []W
	counts []atomic.Uint64 // beside words
}

func newTally[W ~string](words []W) tally[W] {
	return tally[W]{words: words, counts: make([]atomic.Uint64, len(words))}
}

// add counts one event. A word outside the set has no series and is not
// counted: nothing that is not in the set may become one.
func (t *tally[W]) add(word W) {
	if i := slices.Index(t.words, word); i >= 0 {
		t.counts[i].Add(1)
	}
}

// sum returns all events.
func (t *tally[W]) sum() uint64 {
	var n uint64
	for i := range t.counts {
		n += t.counts[i].Load()
	}
	return n
}

// get returns the events of one word, 0 for one outside the set.
func (t *tally[W]) get(word W) uint64 {
	if i := slices.Index(t.words, word); i >= 0 {
		return t.counts[i].Load()
	}
	return 0
}

// collect sends one series per word; before and the word are its labels.
func (t *tally[W]) collect(ch chan<- prometheus.Metric, f *family, before ...string) {
	for i, word := range t.words {
		labels := append(slices.Clip(before), string(word))
		ch <- f.at(float64(t.counts[i].Load()), labels...)
	}
}

// total makes a counter of a number in snapshots. A dependency or store that
// was replaced counts from 0 again, its successor's count goes on from where
// it stood. It is not safe for concurrent use, and readings must be given in
// the order in which they were taken.
type total struct{ before, last float64 }

// see takes a reading and returns the counter's value.
func (t *total) see(reading float64) float64 {
	if reading < t.last {
		t.before += t.last
	}
	t.last = reading
	return t.value()
}

// value returns the counter's value at the last reading.
func (t *total) value() float64 { return t.before + t.last }

// states are the states of a circuit, each at its own index.
var states = [...]breaker.State{breaker.Closed, breaker.HalfOpen, breaker.Open}

// dependency holds what was counted for one dependency. Its handles are found
// by name once per event; after that no label is looked up. Safe for
// concurrent use, apart from the totals.
type dependency struct {
	name        string
	requests    tally[proxy.Outcome]
	attempts    tally[proxy.Result]
	rejections  tally[proxy.Reason]
	fallbacks   []tally[proxy.Reason] // beside proxy.Sources
	denied      tally[proxy.Denial]
	drilled     tally[proxy.Fault]
	withheld    atomic.Uint64
	retries     atomic.Uint64
	transitions [len(states)]atomic.Uint64

	lastStale atomic.Int64 // 1 + the age of the copy served last, in nanoseconds; 0 = none was

	requestSeconds, attemptSeconds, waitSeconds, staleAge prometheus.Observer

	latency  latency
	evidence evidence

	openSeconds, wouldReject total         // guarded by Telemetry.scraping
	shadow                   *shadowTotals // likewise; nil without proposed settings
}

// newDependency returns counters at 0. The histograms are set by Add.
func newDependency(name string) *dependency {
	d := &dependency{
		name:       name,
		requests:   newTally(proxy.Outcomes),
		attempts:   newTally(proxy.Results),
		rejections: newTally(proxy.Refusals),
		denied:     newTally(proxy.Denials),
		drilled:    newTally(proxy.Faults),
	}
	for range proxy.Sources {
		d.fallbacks = append(d.fallbacks, newTally(proxy.Degraders))
	}
	return d
}

// callDone counts a call that ended at now, the latency window's clock.
func (d *dependency) callDone(c *proxy.Call, now time.Duration) {
	d.requests.add(c.Outcome)
	d.evidence.callDone(c)
	if !c.Stream {
		d.requestSeconds.Observe(c.Duration.Seconds())
		d.latency.record(now, c.Duration)
	}
	if c.Refused {
		d.rejections.add(c.Reason)
	}
	if c.Outcome == proxy.OutcomeFallback {
		if i := slices.Index(proxy.Sources, c.Source); i >= 0 {
			d.fallbacks[i].add(c.Reason)
		}
		if c.Source == proxy.SourceStale {
			d.staleAge.Observe(c.Age.Seconds())
			d.lastStale.Store(1 + int64(c.Age))
		}
	}
	if c.Denied != "" {
		d.denied.add(c.Denied)
	}
	if c.Waited > 0 {
		d.waitSeconds.Observe(c.Waited.Seconds())
	}
}

// attemptDone counts an attempt.
func (d *dependency) attemptDone(a *proxy.Attempt) {
	d.attempts.add(a.Result)
	d.evidence.attemptDone(a)
	d.attemptSeconds.Observe(a.Headers.Seconds())
	if a.Retry {
		d.retries.Add(1)
	}
	if a.Drill != "" {
		d.drilled.add(a.Drill)
	}
	if a.Withheld {
		d.withheld.Add(1)
	}
}

// breakerChanged counts a transition.
func (d *dependency) breakerChanged(to breaker.State) {
	if i := slices.Index(states[:], to); i >= 0 {
		d.transitions[i].Add(1)
	}
}

// collect sends the series of what was counted.
func (d *dependency) collect(ch chan<- prometheus.Metric) {
	d.requests.collect(ch, requestsTotal, d.name)
	d.attempts.collect(ch, attemptsTotal, d.name)
	d.rejections.collect(ch, rejectionsTotal, d.name)
	for i, source := range proxy.Sources {
		d.fallbacks[i].collect(ch, fallbacksTotal, d.name, string(source))
	}
	d.denied.collect(ch, retriesDeniedTotal, d.name)
	d.drilled.collect(ch, drillInjectedTotal, d.name)
	ch <- drillWithheldTotal.at(float64(d.withheld.Load()), d.name)
	ch <- retriesTotal.at(float64(d.retries.Load()), d.name)
	for i, s := range states {
		ch <- breakerTransitionsTotal.at(float64(d.transitions[i].Load()), d.name, s.String())
	}
}
