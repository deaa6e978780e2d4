package bulkhead

import (
	"container/heap"
	"slices"
	"time"
)

// Simulation is a bulkhead on paper: it tells what a bulkhead of another size
// would have done with calls that run anyway. It refuses nobody, starts no
// timer and reads no clock; what follows from the passing of time is found at
// its next use. A Simulation is not safe for concurrent use.
//
// A call that waits here starts later than it really does. Once its end shows
// how long it ran, it is taken to run as long from its simulated start on, so
// that a limit that is too small for the load fills its queue as it would in
// earnest. A call that really waited longer than here keeps its permit to its
// real end, since its length is not known before.
type Simulation struct {
	policy Policy
	now    time.Time // the latest time seen
	inUse  int
	queue  []*Visit // first in, first out
	events visits   // the ends of known visits and of bounded waits

	ramp      ramp
	recovered time.Time // the last recovery seen
}

// Visit is one call in a Simulation.
type Visit struct {
	decided  func(refusal error)
	running  bool
	waiting  bool
	started  time.Time // really; zero before
	ended    time.Time // really; zero before
	arrived  time.Time
	granted  time.Time
	at       time.Time // of its event: the end of its wait, or of its run
	position int       // among the events; -1 if it has none
}

// NewSimulation returns an empty bulkhead of the size p.
func NewSimulation(p Policy) *Simulation { return &Simulation{policy: p.normal()} }

// Enter lets a call arrive at now; recovered is as for [Bulkhead.Acquire]. A
// wait ends at deadline, if that is not zero, as it does at the queue timeout.
//
// decided is called once, here or in a later use of the Simulation: with nil
// when the call gets a permit, with ErrFull, ErrQueueTimeout or the error of
// Evict when it is refused. It is not called for a call that leaves before.
func (s *Simulation) Enter(now, recovered, deadline time.Time, decided func(refusal error)) *Visit {
	s.Recover(now, recovered)
	v := &Visit{decided: decided, arrived: s.now, position: -1}
	switch {
	case len(s.queue) == 0 && s.inUse < s.limit():
		s.run(v)
	case len(s.queue) >= s.policy.MaxWaiting:
		decided(ErrFull)
	default:
		s.wait(v, deadline)
	}
	return v
}

// Recover starts the ramp of a recovery, as [Bulkhead.Recover] does.
func (s *Simulation) Recover(now, recovered time.Time) {
	s.advance(now)
	if recovered.After(s.recovered) {
		s.recovered = recovered
		s.ramp = ramp{from: recovered, span: s.policy.Ramp}
	}
}

// Start says that the call really began to run at now.
func (s *Simulation) Start(v *Visit, now time.Time) { v.started = now }

// End says that the call really ended at now. One that never started takes no
// time. Later calls do nothing.
func (s *Simulation) End(v *Visit, now time.Time) {
	if !v.ended.IsZero() {
		return
	}
	v.ended = now
	if v.running {
		s.scheduleEnd(v)
	}
	s.advance(now)
}

// Leave says that the caller went away at now, before it was known whether the
// call is admitted in earnest: it waits here no longer either.
func (s *Simulation) Leave(v *Visit, now time.Time) {
	s.End(v, now)
	if v.waiting {
		s.leaveQueue(v)
	}
}

// Evict ends every wait with err, as [Bulkhead.Evict] does.
func (s *Simulation) Evict(now time.Time, err error) {
	s.advance(now)
	for len(s.queue) > 0 {
		s.refuse(s.queue[0], err)
	}
}

// Snapshot tells how the bulkhead would stand at now.
func (s *Simulation) Snapshot(now time.Time) Snapshot {
	s.advance(now)
	shown := Snapshot{
		Limit:         s.limit(),
		MaxConcurrent: s.policy.MaxConcurrent,
		InUse:         s.inUse,
		Waiting:       len(s.queue),
		MaxWaiting:    s.policy.MaxWaiting,
	}
	if len(s.queue) > 0 {
		shown.OldestWait = s.now.Sub(s.queue[0].arrived)
	}
	return shown
}

// advance lets everything happen that is due by now, in order. At one moment
// permits are given back first and waits end last, so that a permit that
// becomes free in the last instant is used.
func (s *Simulation) advance(now time.Time) {
	for {
		at, v := s.next()
		if at.IsZero() || at.After(now) {
			break
		}
		s.pass(at)
		switch {
		case v == nil: // a step of the ramp
		case v.waiting:
			s.refuse(v, ErrQueueTimeout)
		default:
			s.release(v)
		}
		s.grant()
	}
	s.pass(now)
}

// next returns what happens next and when: the event of a call, or, without
// one, a step of the ramp that lets a waiter in. The time is zero if nothing
// does.
func (s *Simulation) next() (time.Time, *Visit) {
	step := s.nextStep()
	if len(s.events) > 0 && (step.IsZero() || s.events[0].at.Before(step)) {
		return s.events[0].at, s.events[0]
	}
	return step, nil
}

// nextStep returns when a running ramp next lets a waiter in; zero if none does.
func (s *Simulation) nextStep() time.Time {
	if len(s.queue) == 0 {
		return time.Time{}
	}
	return s.ramp.next(s.now, s.policy.MaxConcurrent)
}

// pass moves the clock, which never runs backwards.
func (s *Simulation) pass(now time.Time) {
	if now.After(s.now) {
		s.now = now
	}
}

func (s *Simulation) limit() int { return s.ramp.limit(s.now, s.policy.MaxConcurrent) }

// grant hands free permits to those who have waited longest.
func (s *Simulation) grant() {
	for limit := s.limit(); len(s.queue) > 0 && s.inUse < limit; {
		v := s.queue[0]
		s.leaveQueue(v)
		s.run(v)
	}
}

// run gives a permit.
func (s *Simulation) run(v *Visit) {
	s.inUse++
	v.running, v.granted = true, s.now
	if !v.ended.IsZero() {
		s.scheduleEnd(v)
	}
	v.decided(nil)
}

// scheduleEnd plans when a permit is given back whose call has really ended.
func (s *Simulation) scheduleEnd(v *Visit) {
	v.at = v.ended
	if v.at.Before(s.now) {
		v.at = s.now
	}
	if end := v.granted.Add(v.ended.Sub(v.started)); !v.started.IsZero() && end.After(v.at) {
		v.at = end
	}
	heap.Push(&s.events, v)
}

// release takes a permit back.
func (s *Simulation) release(v *Visit) {
	heap.Remove(&s.events, v.position)
	v.running = false
	s.inUse--
}

// wait puts a call at the end of the queue.
func (s *Simulation) wait(v *Visit, deadline time.Time) {
	v.waiting, v.at = true, deadline
	if t := s.policy.QueueTimeout; t > 0 {
		if end := s.now.Add(t); deadline.IsZero() || end.Before(deadline) {
			v.at = end
		}
	}
	if !v.at.IsZero() {
		heap.Push(&s.events, v)
	}
	s.queue = append(s.queue, v)
}

// leaveQueue takes a call out of the queue.
func (s *Simulation) leaveQueue(v *Visit) {
	i := slices.Index(s.queue, v)
	s.queue = slices.Delete(s.queue, i, i+1)
	if v.position >= 0 {
		heap.Remove(&s.events, v.position)
	}
	v.waiting = false
}

// refuse ends a wait.
func (s *Simulation) refuse(v *Visit, err error) {
	s.leaveQueue(v)
	v.decided(err)
}

// visits is a heap, the next event first; of two at one moment a run's end
// comes before a wait's.
type visits []*Visit

func (h visits) Len() int { return len(h) }

func (h visits) Less(i, j int) bool {
	if h[i].at.Equal(h[j].at) {
		return h[i].running && !h[j].running
	}
	return h[i].at.Before(h[j].at)
}

func (h visits) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].position, h[j].position = i, j
}

// Push implements [heap.Interface].
func (h *visits) Push(x any) {
	v := x.(*Visit)
	v.position = len(*h)
	*h = append(*h, v)
}

// Pop implements [heap.Interface].
func (h *visits) Pop() any {
	last := len(*h) - 1
	v := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	v.position = -1
	return v
}
