package proxy

import (
	"context"
	"time"
)

// callKey is the context key under which a request carries its call.
type callKey struct{}

func callOf(ctx context.Context) *call { return ctx.Value(callKey{}).(*call) }

// callContext is how a call's context ends: by [call.cancel] alone. The end of
// the caller's context is heard of once and passed on, so that one function
// ends what waits for the context, and the exchange that does not.
type callContext struct {
	stop   context.CancelCauseFunc // of the call's context; nil before the call has one
	unhear func() bool             // the end of the caller's
}

// enterContext gives the call a context of its own.
func (c *call) enterContext() {
	c.ctx, c.ending.stop = context.WithCancelCause((*callValues)(c))
	if c.r.Context().Err() != nil {
		c.ending.stop(errLeft)
		return
	}
	c.ending.unhear = context.AfterFunc(c.r.Context(), func() { c.cancel(errLeft) })
}

// leaveContext ends it with the call.
func (c *call) leaveContext() {
	if c.ending.unhear != nil {
		c.ending.unhear()
	}
	if c.ending.stop != nil {
		c.cancel(errCallEnded)
	}
}

// cancel ends the call's context, and with it whatever the call waits for. The
// first cause counts.
func (c *call) cancel(cause error) {
	c.ending.stop(cause)
	c.mu.Lock()
	a := c.latest
	c.mu.Unlock()
	if a != nil {
		a.exchange.Interrupt()
	}
}

// callValues is the context under the call's own: the values of the caller's,
// and the call, and no end.
type callValues call

// Value implements [context.Context].
func (v *callValues) Value(key any) any {
	if key == (callKey{}) {
		return (*call)(v)
	}
	return v.r.Context().Value(key)
}

// Deadline implements [context.Context].
func (v *callValues) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done implements [context.Context].
func (v *callValues) Done() <-chan struct{} { return nil }

// Err implements [context.Context].
func (v *callValues) Err() error { return nil }

// cancel ends the attempt. The first cause counts.
func (a *attempt) cancel(cause error) {
	a.mu.Lock()
	if a.cause == nil {
		a.cause = cause
	}
	stop := a.stop
	a.mu.Unlock()
	if stop != nil {
		stop(cause)
	}
	a.exchange.Interrupt()
}

// cut returns why the attempt, or its call, was ended; nil while neither was.
func (a *attempt) cut() error {
	a.mu.Lock()
	cause := a.cause
	a.mu.Unlock()
	if cause == nil {
		cause = context.Cause(a.c.ctx)
	}
	return cause
}

// context ends when the attempt or its call is ended. It is made for those that
// wait for more than the attempt's exchange.
func (a *attempt) context() context.Context {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ctx == nil {
		a.ctx, a.stop = context.WithCancelCause(a.c.ctx)
		if a.cause != nil {
			a.stop(a.cause)
		}
	}
	return a.ctx
}
