package proxy

import (
	"errors"
	"net/http"
	"time"

	"sidecar/resilience/breaker"
	"sidecar/resilience/bulkhead"
)

// ServeHTTP carries one call through every stage, outermost first. The order
// is decided here and nowhere else:
//
//	breaker > bulkhead > deadline > retry > transport, else fallback
//
// The retry stage is [attempts], the transport of the ReverseProxy that the
// last line enters; a drill, while one runs, stands before the true transport. Whatever goes wrong on the way, there or here, ends in
// [call.degrade], the one fallback path.
func (d *Dependency) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := d.begin(w, r)
	defer c.end()

	// What no upstream should see is refused before it can cost anything.
	if f := c.unacceptable(); f != nil {
		c.degrade(*f)
		return
	}

	// Proposed settings, if any, are asked beside the live ones and change
	// nothing of what follows.
	c.shadow = c.run.shadow.arrive(c)

	// Breaker first: an open circuit costs no permit, no connection and no
	// waiting, and a sick dependency gets no call that it cannot answer.
	if err := c.admit(c.start); err != nil {
		c.degrade(refused(err))
		return
	}

	// The deadline runs from arrival, so that waiting, attempts, backoff and
	// body share one bound; it is started once there is something to bound.
	c.startDeadline()

	// Bulkhead: however slow the dependency gets, it holds this many calls
	// and no more. The permit is held until the last byte has gone.
	unwatch := c.watchCaller()
	slot, err := d.bulkhead.Acquire(c.ctx, c.start, c.permit.RecoveredAt())
	unwatch()
	if err != nil {
		if !errors.Is(err, bulkhead.ErrFull) {
			c.waited = time.Since(c.start)
		}
		c.degrade(refused(err))
		return
	}
	defer func() { slot.Release(time.Now()) }()

	// A call that waited was let in by a breaker of some time ago. If the
	// circuit has changed since, it asks again.
	c.waited = slot.Waited()
	if c.waited > 0 && !c.permit.Live() {
		if err := c.admit(time.Now()); err != nil {
			c.degrade(refused(err))
			return
		}
	}

	d.reverseFor(r).ServeHTTP(c.writer(), c.forward())
	c.passing = false
}

// admit asks the breaker for leave to make one attempt.
func (c *call) admit(now time.Time) error {
	permit, err := c.d.breaker.Allow(now)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.permit = permit
	c.mu.Unlock()
	return nil
}

// settle tells the breaker what became of the attempt it let go. Only the
// first verdict on a permit counts, so [call.end] can always add the harmless
// one. An attempt at the upstream of before says nothing of the present one.
func (c *call) settle(o breaker.Outcome) {
	if c.run.target != c.d.current.Load().target {
		o = breaker.Ignored
	}
	c.mu.Lock()
	permit := c.permit
	c.permit = breaker.Permit{}
	c.mu.Unlock()
	if permit != (breaker.Permit{}) {
		permit.Done(time.Now(), o)
	}
}
