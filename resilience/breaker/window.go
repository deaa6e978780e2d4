package breaker

import "time"

// window holds the latest outcomes in closed. It is not safe for concurrent
// use: the breaker's mutex guards it. Times given to it never run backwards.
type window interface {
	record(now time.Time, o Outcome) tally // o is not Ignored; returns what tally would
	tally(now time.Time) tally
	clear()
}

// newWindow returns an empty window of the given shape.
func newWindow(now time.Time, w Window) window {
	if w.Span > 0 {
		return &timeWindow{origin: now, step: max(w.Span/steps, 1)}
	}
	return &countWindow{ring: make([]Outcome, w.Calls)}
}

// tally counts outcomes. Slow ones may be failures as well, or neither success
// nor failure.
type tally struct{ calls, failures, slow int }

// add counts an outcome, which is not Ignored, n times.
func (t *tally) add(o Outcome, n int) {
	t.calls += n
	if o.has(Failure) {
		t.failures += n
	}
	if o.has(Slow) {
		t.slow += n
	}
}

// subtract takes the counts of u away.
func (t *tally) subtract(u tally) {
	t.calls -= u.calls
	t.failures -= u.failures
	t.slow -= u.slow
}

// countWindow holds the last len(ring) outcomes.
type countWindow struct {
	ring   []Outcome // Ignored where nothing was recorded yet
	oldest int
	sum    tally
}

func (w *countWindow) record(_ time.Time, o Outcome) tally {
	if len(w.ring) == 0 {
		return tally{}
	}
	if forgotten := w.ring[w.oldest]; forgotten != Ignored {
		w.sum.add(forgotten, -1)
	}
	w.ring[w.oldest] = o
	w.sum.add(o, 1)
	w.oldest++
	if w.oldest == len(w.ring) {
		w.oldest = 0
	}
	return w.sum
}

func (w *countWindow) tally(time.Time) tally { return w.sum }

func (w *countWindow) clear() {
	clear(w.ring)
	w.oldest, w.sum = 0, tally{}
}

// steps is the number of equal parts a time window is kept in.
const steps = 60

// timeWindow holds the outcomes of the last span. Time since origin is cut into
// steps of a sixtieth of the span; the present step and the 59 before it count.
// So an outcome at the very start of a step counts for exactly the span, and
// none counts longer.
type timeWindow struct {
	sum     tally
	present int64         // number of the present step, counted from origin
	edge    time.Duration // from origin to the end of the present step
	origin  time.Time
	step    time.Duration
	ring    [steps]tally
}

func (w *timeWindow) record(now time.Time, o Outcome) tally {
	w.advance(now)
	w.ring[w.present%steps].add(o, 1)
	w.sum.add(o, 1)
	return w.sum
}

func (w *timeWindow) tally(now time.Time) tally {
	w.advance(now)
	return w.sum
}

func (w *timeWindow) clear() {
	w.ring, w.sum = [steps]tally{}, tally{}
}

// advance forgets the steps that are out of the span by now.
func (w *timeWindow) advance(now time.Time) {
	age := now.Sub(w.origin)
	if age < w.edge {
		return
	}
	step := int64(age / w.step)
	w.edge = time.Duration(step+1) * w.step // an overflow, after centuries, costs only time
	if step-w.present >= steps {
		w.clear()
		w.present = step
	}
	for w.present < step {
		w.present++
		expired := &w.ring[w.present%steps]
		w.sum.subtract(*expired)
		*expired = tally{}
	}
}
