package bulkhead

import "time"

// queue is the bulkhead's state machine: permits in use and the calls that
// wait, first in, first out. It reads no clock and never blocks. Callers hold
// the bulkhead's lock, by which the lane is closed.
type queue struct {
	policy Policy
	inUse  int // not kept while the lane is open

	front, back *waiter
	waiting     int

	ramp      ramp
	recovered time.Time // the last recovery seen

	// timekeeper is the waiter that was told to follow the ramp's steps for
	// all: the front. Nil makes settle tell the front anew.
	timekeeper *waiter
}

// waiter is one call in the queue.
type waiter struct {
	prev, next *waiter
	arrived    time.Time
	deadline   time.Time // end of the queue timeout; zero if there is none

	// woken tells the call to look how it stands. Capacity 1: signals merge.
	woken   chan struct{}
	granted bool
	err     error // why it was evicted; never set on a granted waiter
}

// standing is what a waiter finds when it looks: a permit, an error, or
// neither, and then next is when to look again at the latest (zero: no such
// time, a signal will come).
type standing struct {
	granted bool
	err     error
	next    time.Time
}

func (p Policy) normal() Policy {
	p.MaxConcurrent = max(p.MaxConcurrent, 1)
	p.MaxWaiting = max(p.MaxWaiting, 0)
	p.QueueTimeout = max(p.QueueTimeout, 0)
	p.Ramp = max(p.Ramp, 0)
	return p
}

// recover starts a ramp at a recovery that was not seen before.
func (q *queue) recover(recovered time.Time) {
	if recovered.After(q.recovered) {
		q.recovered = recovered
		q.ramp = ramp{from: recovered, span: q.policy.Ramp}
		q.timekeeper = nil
	}
}

// enter admits a call that arrives at now: no waiter and no error mean a
// permit. Those who wait come first: it settles before it looks for a free
// permit, so that there is one only if nobody waits.
func (q *queue) enter(now, recovered time.Time) (*waiter, error) {
	q.recover(recovered)
	q.settle(now)
	if q.inUse < q.ramp.limit(now, q.policy.MaxConcurrent) {
		q.inUse++
		return nil, nil
	}
	if q.waiting >= q.policy.MaxWaiting {
		return nil, ErrFull
	}
	w := &waiter{arrived: now, woken: make(chan struct{}, 1)}
	if q.policy.QueueTimeout > 0 {
		w.deadline = now.Add(q.policy.QueueTimeout)
	}
	q.push(w)
	return w, nil
}

// look tells the waiter w how it stands at now; gone is why its caller has
// left, nil if it has not. Whoever is told of a permit or an error has left
// the queue.
func (q *queue) look(now time.Time, w *waiter, gone error) standing {
	if gone != nil && !w.granted && w.err == nil {
		q.remove(w)
		q.settle(now)
		return standing{err: gone}
	}
	q.settle(now)
	if w.granted || w.err != nil {
		return standing{granted: w.granted, err: w.err}
	}
	if !w.deadline.IsZero() && !now.Before(w.deadline) {
		q.remove(w)
		q.settle(now)
		return standing{err: ErrQueueTimeout}
	}
	next := w.deadline
	if w == q.front {
		step := q.ramp.next(now, q.policy.MaxConcurrent)
		if next.IsZero() || (!step.IsZero() && step.Before(next)) {
			next = step
		}
	}
	return standing{next: next}
}

// evict takes every waiter out of the queue with err.
func (q *queue) evict(err error) {
	for q.front != nil {
		w := q.front
		q.remove(w)
		w.err = err
		w.signal()
	}
}

// setPolicy changes the size at now.
func (q *queue) setPolicy(now time.Time, p Policy) {
	q.endRamp(now) // Under the old settings: one that is over stays over.
	q.policy = p
	q.ramp.span = p.Ramp
	q.timekeeper = nil
	q.settle(now)
}

// settle hands free permits to those who have waited longest and sees to it
// that somebody follows a running ramp. Every change ends with it.
func (q *queue) settle(now time.Time) {
	q.endRamp(now)
	if q.front == nil {
		q.timekeeper = nil
		return
	}
	limit := q.ramp.limit(now, q.policy.MaxConcurrent)
	for q.front != nil && q.inUse < limit {
		w := q.front
		q.remove(w)
		q.inUse++
		w.granted = true
		w.signal()
	}
	if q.front != q.timekeeper {
		q.timekeeper = q.front
		if q.front != nil && q.ramp.running() {
			q.front.signal()
		}
	}
}

// endRamp forgets a ramp that is over, so that it costs no more.
func (q *queue) endRamp(now time.Time) {
	if q.ramp.over(now) {
		q.ramp = ramp{}
	}
}

func (q *queue) snapshot(now time.Time) Snapshot {
	s := Snapshot{
		Limit:         q.ramp.limit(now, q.policy.MaxConcurrent),
		MaxConcurrent: q.policy.MaxConcurrent,
		InUse:         q.inUse,
		Waiting:       q.waiting,
		MaxWaiting:    q.policy.MaxWaiting,
	}
	if q.front != nil {
		s.OldestWait = max(now.Sub(q.front.arrived), 0)
	}
	return s
}

func (q *queue) push(w *waiter) {
	w.prev = q.back
	if q.back == nil {
		q.front = w
	} else {
		q.back.next = w
	}
	q.back = w
	q.waiting++
}

func (q *queue) remove(w *waiter) {
	if w.prev == nil {
		q.front = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		q.back = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next = nil, nil
	q.waiting--
}

// signal wakes the waiter, now or when it next waits.
func (w *waiter) signal() {
	select {
	case w.woken <- struct{}{}:
	default:
	}
}
