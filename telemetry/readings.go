package telemetry

import (
	"sync/atomic"
	"time"

	"sidecar/history"
	"sidecar/proxy"
	"sidecar/resilience/breaker"
)

// statusLeft is the status of a call whose caller left before any was sent.
const statusLeft = 499

// durations is a cumulative histogram, safe for concurrent use.
type durations [history.Buckets]atomic.Uint32

func (d *durations) add(t time.Duration) { d[history.Bucket(t)].Add(1) }

// load reads the counts.
func (d *durations) load(into *history.Durations) {
	for i := range d {
		into[i] = d[i].Load()
	}
}

// evidence is what the history wants to know beyond what the metrics count. It
// is safe for concurrent use.
type evidence struct {
	calls, served, attempts, left durations // see [history.Reading]

	retriesSucceeded atomic.Uint64
	passed           [len(history.ErrorAnswers)]atomic.Uint64
}

// callDone counts a call.
func (e *evidence) callDone(c *proxy.Call) {
	if c.Stream {
		return
	}
	e.calls.add(c.Duration)
	switch {
	case c.Drill != "": // how long a drill takes says nothing of the dependency
	case c.Outcome == proxy.OutcomeOK:
		if _, looksBad := history.ErrorAnswer(c.Status, 0); !looksBad {
			e.served.add(c.Duration - c.Waited)
		}
	case c.Outcome == proxy.OutcomeCanceled && c.Status == statusLeft, c.Reason == proxy.ReasonDeadline:
		e.left.add(c.Duration)
	}
}

// attemptDone counts an attempt.
func (e *evidence) attemptDone(a *proxy.Attempt) {
	if a.Result != proxy.ResultSuccess {
		return
	}
	if a.Retry {
		e.retriesSucceeded.Add(1)
	}
	if i, looksBad := history.ErrorAnswer(a.Status, a.GRPC); looksBad {
		e.passed[i].Add(1)
		return
	}
	if a.Drill == "" {
		e.attempts.add(a.Headers)
	}
}

// Readings is the [history.Source]: it returns a reading of each dependency
// that the source runs.
func (t *Telemetry) Readings() []*history.Reading {
	source := t.source.Load()
	if source == nil {
		return nil
	}
	snapshots := (*source).Snapshots()
	readings := make([]*history.Reading, 0, len(snapshots))
	for i := range snapshots {
		if d := t.find(snapshots[i].Name); d != nil {
			readings = append(readings, d.history(&snapshots[i]))
		}
	}
	return readings
}

// history returns a reading of the dependency.
func (d *dependency) history(s *proxy.Snapshot) *history.Reading {
	b := &s.Bulkhead
	r := &history.Reading{
		Name: d.name, InFlight: s.InFlight,
		State: s.Breaker.State, Forced: s.Breaker.Forced != breaker.Auto, Since: s.Breaker.Since,
		InUse: b.InUse, Limit: b.Limit, Permits: b.MaxConcurrent, Waiting: b.Waiting,
	}
	c := &r.Counts
	load(c[history.OK:], d.requests.counts)
	load(c[history.AttemptSuccess:], d.attempts.counts)
	load(c[history.RefusedOpen:], d.rejections.counts)
	load(c[history.DeniedBudget:], d.denied.counts)
	for i := range d.fallbacks {
		c[history.FromStale+history.Counter(i)] = d.fallbacks[i].sum()
	}
	load(c[history.ToClosed:], d.transitions[:])
	load(c[history.Passed:], d.evidence.passed[:])
	c[history.Retries], c[history.RetriesSucceeded] = d.retries.Load(), d.evidence.retriesSucceeded.Load()
	d.evidence.calls.load(&r.Calls)
	d.evidence.served.load(&r.Served)
	d.evidence.attempts.load(&r.Attempts)
	d.evidence.left.load(&r.Left)
	return r
}

// load reads counters that stand in the same order on both sides.
func load(into []uint64, counts []atomic.Uint64) {
	for i := range counts {
		into[i] = counts[i].Load()
	}
}
