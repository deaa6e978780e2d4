package history

import (
	"math"
	"time"

	"sidecar/resilience/breaker"
)

const (
	// readEvery is the time between two readings.
	readEvery = time.Second
	// StepLength is the time that a step stands for.
	StepLength = 5 * time.Second
	// Steps is how many steps are kept: a quarter of an hour.
	Steps = 180

	stepReadings = int(StepLength / readEvery)
	spanReadings = int(3 * time.Minute / readEvery)
	spanCount    = 5
	spellCount   = 16
)

// The states of a step.
const (
	Absent   byte = '.' // the dependency was not running yet
	Closed   byte = 'c'
	HalfOpen byte = 'h'
	Open     byte = 'o'
)

// Step is what happened in five seconds.
type Step struct {
	State   byte    // the worst one; 0 for Absent
	Seconds float32 // how long the step really was

	OK, Failed, Fallback, Rejected, Canceled uint32 // calls
	Attempts                                 uint32

	Peak     float32 // calls begun in the busiest second
	P50, P99 float32 // of calls, in seconds; NaN without any

	InUse, Limit, Waiting int32 // the highest ones read
	Held                  int32 // the lowest InUse read
}

// Calls returns the calls that ended in the step.
func (s *Step) Calls() uint32 { return s.OK + s.Failed + s.Fallback + s.Rejected + s.Canceled }

// span is what happened in three minutes.
type span struct {
	length                 time.Duration
	counts                 Counts
	served, attempts, left Durations
}

// Spell is a time in which the circuit stayed closed after a recovery, until it
// opened again by its rules.
type Spell struct {
	Ended  time.Time
	Lasted time.Duration
}

// track is the record of one dependency. The recorder's lock guards it.
type track struct {
	last      Reading
	recovered bool // the circuit was seen open before it closed

	step      Step // the present one
	stepCalls Durations
	steps     [Steps]Step

	spans  [spanCount]span
	spells [spellCount]Spell
	nSpell int // spells seen
}

// see takes a reading, some time after the last one.
func (t *track) see(now *Reading, elapsed time.Duration, turn int) {
	if now.Counts.Calls() < t.last.Counts.Calls() {
		t.last = Reading{Name: now.Name} // another dependency of this name, which counts from 0
	}
	var since Counts
	since.add(&t.last.Counts, &now.Counts)
	if t.saturated(now, &since) {
		since[Saturated] = since.sum(RefusedQueueFull, RefusedQueueTimeout)
		since[SaturatedSeconds] = 1
	}
	s := &t.spans[turn%spanCount]
	s.length += elapsed
	s.counts.add(&Counts{}, &since)
	s.served.add(&t.last.Served, &now.Served)
	s.attempts.add(&t.last.Attempts, &now.Attempts)
	s.left.add(&t.last.Left, &now.Left)
	t.seeStep(now, &since, elapsed)
	t.seeState(now)
	t.last = *now
}

// saturated reports whether calls were refused for want of a permit while the
// dependency was well.
func (t *track) saturated(now *Reading, since *Counts) bool {
	return since.sum(RefusedQueueFull, RefusedQueueTimeout) > 0 && since.Failures() == 0 && since[ToOpen] == 0 &&
		now.State == breaker.Closed && t.last.State == breaker.Closed &&
		now.Limit == now.Permits && t.last.Limit == now.Permits
}

// seeStep adds a reading to the present step.
func (t *track) seeStep(now *Reading, since *Counts, elapsed time.Duration) {
	s := &t.step
	if s.State == 0 {
		s.Held = math.MaxInt32
	}
	s.State = max(s.State, worst(now.State, since)) // c < h < o
	s.Seconds += float32(elapsed.Seconds())
	s.OK += uint32(since[OK])              //nolint:gosec // of a second
	s.Failed += uint32(since[Failed])      //nolint:gosec // of a second
	s.Fallback += uint32(since[Fallback])  //nolint:gosec // of a second
	s.Rejected += uint32(since[Rejected])  //nolint:gosec // of a second
	s.Canceled += uint32(since[Canceled])  //nolint:gosec // of a second
	s.Attempts += uint32(since.Attempts()) //nolint:gosec // of a second
	if begun, before := now.begun(), t.last.begun(); begun > before && elapsed > 0 {
		s.Peak = max(s.Peak, float32(float64(begun-before)/elapsed.Seconds()))
	}
	t.stepCalls.add(&t.last.Calls, &now.Calls)
	s.InUse = max(s.InUse, clip(now.InUse))
	s.Held = min(s.Held, clip(now.InUse))
	s.Limit = max(s.Limit, clip(now.Limit))
	s.Waiting = max(s.Waiting, clip(now.Waiting))
}

// worst is the worst state since the last reading.
func worst(now breaker.State, since *Counts) byte {
	switch {
	case now == breaker.Open, since[ToOpen] > 0:
		return Open
	case now == breaker.HalfOpen, since[ToHalfOpen] > 0:
		return HalfOpen
	}
	return Closed
}

// seeState notes how long the circuit stayed closed. What an operator orders
// says nothing.
func (t *track) seeState(now *Reading) {
	was, is := t.last.State, now.State
	switch {
	case now.Forced:
		t.recovered = false
	case was != breaker.Closed && is == breaker.Closed:
		t.recovered = !t.last.Forced
	case was == breaker.Closed && is != breaker.Closed:
		if t.recovered && !t.last.Forced {
			t.spells[t.nSpell%spellCount] = Spell{Ended: now.Since, Lasted: now.Since.Sub(t.last.Since)}
			t.nSpell++
		}
		t.recovered = false
	}
}

// endStep keeps the present step as the n-th and begins the next.
func (t *track) endStep(n int) {
	t.step.P50, t.step.P99 = float32(math.NaN()), float32(math.NaN())
	if t.stepCalls.Total() > 0 {
		t.step.P50 = float32(t.stepCalls.Quantile(0.50).Seconds())
		t.step.P99 = float32(t.stepCalls.Quantile(0.99).Seconds())
	}
	t.steps[n%Steps] = t.step
	t.step, t.stepCalls = Step{}, Durations{}
}

// clip makes a gauge fit.
func clip(n int) int32 { return int32(min(max(n, 0), math.MaxInt32)) }
