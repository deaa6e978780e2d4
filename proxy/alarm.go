package proxy

import (
	"sync"
	"time"
)

// alarm is a call's one timer, for the two moments that end a wait: the call's
// deadline, and the time by which the headers of its latest attempt are due. A
// moment that no longer counts is only forgotten: most calls set the timer
// once, and stop it. It is safe for concurrent use.
type alarm struct {
	mu       sync.Mutex // guards everything below
	timer    *time.Timer
	rings    time.Time // when timer goes off; it may find nothing due
	deadline time.Time // zero for none
	why      error     // the deadline's cause
	due      time.Time // the headers'; zero for none
	attempt  *attempt  // whose headers are due
}

// setDeadline replaces the deadline. The timer goes off no later than soon,
// which is when headers may be due.
func (c *call) setDeadline(at time.Time, why error, soon time.Time) {
	a := &c.alarm
	a.mu.Lock()
	defer a.mu.Unlock()
	a.deadline, a.why = at, why
	c.arm(earlier(at, soon))
}

// forgetDeadline leaves the call without one.
func (c *call) forgetDeadline() {
	a := &c.alarm
	a.mu.Lock()
	defer a.mu.Unlock()
	a.deadline = time.Time{}
}

// expectHeaders ends an attempt whose headers are not there by a time.
func (c *call) expectHeaders(of *attempt, at time.Time) {
	a := &c.alarm
	a.mu.Lock()
	defer a.mu.Unlock()
	a.attempt, a.due = of, at
	c.arm(at)
}

// headersCame ends the wait for an attempt's headers.
func (c *call) headersCame(of *attempt) {
	a := &c.alarm
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.attempt == of {
		a.attempt, a.due = nil, time.Time{}
	}
}

// arm lets the timer go off by a time; never for a zero one. alarm.mu is held.
func (c *call) arm(at time.Time) {
	a := &c.alarm
	switch {
	case at.IsZero(), !a.rings.IsZero() && !at.Before(a.rings):
		return
	case a.timer == nil:
		a.timer = time.AfterFunc(time.Until(at), c.ring)
	default:
		a.timer.Reset(time.Until(at))
	}
	a.rings = at
}

// ring ends what is due.
func (c *call) ring() {
	a := &c.alarm
	now := time.Now()
	a.mu.Lock()
	a.rings = time.Time{}
	var late *attempt
	if a.attempt != nil && !a.due.After(now) {
		late, a.attempt, a.due = a.attempt, nil, time.Time{}
	}
	expired := !a.deadline.IsZero() && !a.deadline.After(now)
	why := a.why
	if expired {
		a.deadline = time.Time{}
	}
	c.arm(earlier(a.deadline, a.due))
	a.mu.Unlock()
	if late != nil {
		late.cancel(errAttempt)
	}
	if expired {
		c.expire(why)
	}
}

// stopAlarm stops the timer for good.
func (c *call) stopAlarm() {
	a := &c.alarm
	a.mu.Lock()
	defer a.mu.Unlock()
	a.deadline, a.attempt, a.due = time.Time{}, nil, time.Time{}
	if a.timer != nil {
		a.timer.Stop()
	}
}

// earlier returns the earlier of two times; a zero one is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
