package proxy

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"sidecar/http1"
	"sidecar/resilience/breaker"
	"sidecar/stale"
)

// attempt is one request to the upstream, from its start to the last byte of
// its answer. Its verdict for the breaker and its result for the observer are
// given once each. It is safe for concurrent use.
type attempt struct {
	c      *call
	start  time.Time
	retry  bool
	probe  bool
	body   *replayReader // nil when the request has none
	ticket stale.Ticket  // under which the answer may be kept

	drill    *drill // that it met, or nil
	withheld bool   // by the drill: nothing went to the upstream
	delayed  struct {
		by  time.Duration // that the drill added, before the request was sent
		cut bool          // the attempt did not outlast it
	}

	reused   bool           // the connection it was sent on had been used before
	exchange http1.Exchange // what sends it, where that is package http1; else net/http does:
	conn     net.Conn       // on this connection; nil if it got none
	wrote    atomic.Bool    // the request's headers have been written on it
	before   int64          // bytes that had been written on conn by then

	mu       sync.Mutex // guards everything below
	cause    error      // why it was ended; nil before
	ctx      context.Context
	stop     context.CancelCauseFunc // of ctx; both are nil until wanted
	timer    *time.Timer             // of a probe: the wait for its body
	sent     time.Time               // when the request body was sent; zero before
	headers  time.Duration
	status   int           // of the response; 0 before
	code     int           // gRPC's status of the response
	answered bool          // the wait for headers is over
	wait     time.Duration // for the headers, from sent on; 0 if they were not waited for
	judged   bool
	done     bool
	interims int
	held     []interim // not passed on yet
}

// newAttempt prepares the call's next request to the upstream.
func (c *call) newAttempt() *attempt {
	a := &attempt{c: c, start: time.Now(), retry: c.tries > 0, probe: c.permit.Probe(), ticket: c.ticket()}
	c.mu.Lock()
	c.latest = a
	c.mu.Unlock()
	c.shadow.run(c.start.Add(c.waited))
	if c.replay != nil {
		a.body = c.replay.reader(a.bodySent)
	}
	return a
}

// attemptContext is that of the latest attempt.
func (c *call) attemptContext() context.Context {
	c.mu.Lock()
	a := c.latest
	c.mu.Unlock()
	return a.context()
}

// send makes the attempt and returns the response with its headers.
func (a *attempt) send(req *http.Request) (*http.Response, error) {
	if a.c.patient {
		if a.retry {
			req = req.WithContext(req.Context())
			req.Header = req.Header.Clone() // the last attempt may still be read from
		}
		a.c.passDeadline(req.Header)
	}
	if a.body == nil {
		a.bodySent()
	}
	res, err := a.c.run.pool.send(a, req)
	a.headersDone()
	return res, err
}

// direct sends the attempt's request in this goroutine.
func (a *attempt) direct(t *http1.Transport, req *http.Request) (*http.Response, error) {
	if a.body != nil {
		req = req.WithContext(req.Context())
		req.Body = a.body
	}
	res, err := t.RoundTrip(a.c.ctx, req, &a.exchange, a)
	a.reused = a.exchange.Reused()
	return res, err
}

// bodySent starts attempt_timeout: from here on the upstream is waited for. A
// caller's slow upload is not the upstream's slowness.
func (a *attempt) bodySent() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.done || a.answered {
		return
	}
	a.sent = time.Now()
	if t := a.attemptTimeout(); t > 0 {
		a.c.expectHeaders(a, a.sent.Add(t-a.delayed.by))
	}
}

// attemptTimeout is the policy's; 0 for none, also where the call's own timeout
// comes no later.
func (a *attempt) attemptTimeout() time.Duration {
	if p := a.c.policy; p.AttemptTimeout < p.Timeout || p.Timeout <= 0 {
		return p.AttemptTimeout
	}
	return 0
}

// headersDone ends the wait for response headers.
func (a *attempt) headersDone() {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.c.headersCame(a)
	a.answered = true
	a.headers = now.Sub(a.start)
	a.wait = a.delayed.by
	if !a.sent.IsZero() {
		a.wait += now.Sub(a.sent)
	}
}

// judge gives the breaker its verdict, once.
func (a *attempt) judge(o breaker.Outcome) {
	a.mu.Lock()
	if a.judged {
		a.mu.Unlock()
		return
	}
	a.judged = true
	wait := a.wait
	a.mu.Unlock()
	a.c.settle(a.c.run.settings.Breaker.SlowCall.Mark(o, wait))
	a.c.shadow.hear(o, wait)
}

// said notes what the response says of itself.
func (a *attempt) said(status, code int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.status, a.code = status, code
}

// finish ends the attempt and tells the observer its result, once.
func (a *attempt) finish(r Result) {
	a.mu.Lock()
	if a.done {
		a.mu.Unlock()
		return
	}
	a.done = true
	if a.timer != nil {
		a.timer.Stop()
	}
	told := Attempt{
		Dependency: a.c.d.name, Result: r, Retry: a.retry,
		Headers: a.headers, Status: a.status, GRPC: a.code, Withheld: a.withheld,
	}
	a.mu.Unlock()
	if a.body != nil {
		_ = a.body.Close()
	}
	a.cancel(errCallEnded)
	if a.drill != nil {
		told.Drill = a.drill.Fault
	}
	a.c.d.observer.AttemptDone(told)
}

// fail ends an attempt that brought no response.
func (a *attempt) fail(why Reason) {
	if why == ReasonCanceled || why == ReasonDeadline {
		a.judge(breaker.Ignored)
		a.finish(ResultCanceled)
		return
	}
	a.judge(breaker.Failure)
	a.finish(Result(why))
}

// ended reports whether the attempt's result is known.
func (a *attempt) ended() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.done
}

// judgeProbe keeps half-open from hanging: a probe whose body still flows
// attempt_timeout after its headers is judged by its headers.
func (a *attempt) judgeProbe() {
	if a.c.policy.AttemptTimeout <= 0 {
		a.judge(breaker.Success)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.done {
		a.timer = time.AfterFunc(a.c.policy.AttemptTimeout, func() { a.judge(breaker.Success) })
	}
}

// whyFailed names the reason for an error of the Transport. The sidecar's own
// endings are told by the context's cause, the caller's by its body.
func (a *attempt) whyFailed(err error) Reason {
	if a.c.body.fault() != nil {
		return ReasonCanceled
	}
	if cause := a.cut(); cause != nil {
		return whyCut(cause)
	}
	why := classify(err)
	if why == ReasonProtocol && (a.exchange.Ended() || endedOn(a.conn)) {
		return ReasonReset // in the middle of a line
	}
	return why
}
