package proxy

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"slices"
	"time"

	"sidecar/resilience/breaker"
	"sidecar/resilience/retry"
)

const (
	// longestRetryAfter is how long an upstream may make a call without a
	// deadline wait before its next attempt.
	longestRetryAfter = 30 * time.Second
	// drainBytes and drainTime bound what is read of a failed answer, or of
	// an upload that nobody wants, to get the connection back; a new one costs
	// more than that.
	drainBytes = 64 << 10
	drainTime  = 20 * time.Millisecond
)

// attempts is the ReverseProxy's transport: it makes a call's attempts, one
// after the other, until one succeeds, none is left, or none would be right.
// The answer of the last one is the upstream's answer to the call.
func attempts(req *http.Request) (*http.Response, error) {
	c := callOf(req.Context())
	c.passInterim = httptrace.ContextClientTrace(req.Context()).Got1xxResponse
	if req.Body != nil {
		c.replay = newReplay(req.Body, c.policy.Retry.keeps(req.ContentLength))
	}
	for {
		a, res, why, err := c.attempt(req)
		wanted, delay := c.wantsRetry(a, res, why)
		if !wanted || !c.pause(delay) || !c.admitRetry(a) {
			return c.final(req, a, res, why, err)
		}
		if res != nil {
			discard(a, res)
		}
		if why == ReasonReset && a.reused {
			// What killed this kept-alive connection may have killed the
			// others: the retry must not meet the next dead one.
			c.run.pool.retire()
		}
	}
}

// attempt makes one request that the upstream could see and judges its
// headers. why is empty for a success.
func (c *call) attempt(req *http.Request) (a *attempt, res *http.Response, why Reason, err error) {
	a = c.newAttempt()
	res, err = a.meetDrill(req)
	for res == nil && err == nil {
		res, err = a.send(req)
		if err == nil || !a.reused || !a.unsent() || !c.replay.rewind() || a.cut() != nil {
			break
		}
		// A kept-alive connection had died before a byte was written: the
		// upstream saw nothing, so this was no attempt. The next connection.
		a.cancel(errCallEnded)
		drill, delayed := a.drill, a.delayed
		a, err = c.newAttempt(), nil
		a.drill, a.delayed = drill, delayed
	}
	c.tries++
	if err == nil {
		res, why, err = a.judgeHeaders(req, res)
	}
	if err != nil {
		if why == "" {
			why = a.whyFailed(err)
		}
		a.fail(why)
		return a, nil, why, err
	}
	return a, res, why, nil
}

// wantsRetry reports whether the policy wants another attempt after this one,
// and after how long. What was wanted and cannot be is noted as denied.
func (c *call) wantsRetry(a *attempt, res *http.Response, why Reason) (bool, time.Duration) {
	p := &c.policy.Retry
	if c.tries > p.MaxRetries || !p.covers(why, res) {
		return false, 0
	}
	// A probe asks one question; the answer stands.
	if a.probe {
		return c.deny(DeniedBreaker), 0
	}
	if !idempotent(c.r) && (res != nil || !a.unsent()) {
		return c.deny(DeniedMethod), 0
	}
	if !c.replay.again() {
		return c.deny(DeniedBody), 0
	}
	now := time.Now()
	delay := p.Backoff.Delay(c.tries-1, rand.Float64())
	if res != nil {
		if after, ok := retry.After(res.Header.Get("Retry-After"), now); ok {
			delay = max(delay, after)
		}
	}
	left, bounded := c.remaining(now)
	if !bounded {
		left = longestRetryAfter
	}
	if delay >= left {
		return c.deny(DeniedDeadline), 0
	}
	// Nobody waits for what will be refused.
	if c.d.breaker.RetryAfter(now) > delay {
		return c.deny(DeniedBreaker), 0
	}
	return true, delay
}

// pause waits out the backoff; false when the call ended meanwhile.
func (c *call) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return c.ctx.Err() == nil
	case <-c.ctx.Done():
		return false
	}
}

// admitRetry asks breaker and budget again before the retry of an attempt: an
// open circuit ends all retries, and a storm of them cannot form. An answer
// that nobody will see is judged by its headers, before the next permit.
func (c *call) admitRetry(a *attempt) bool {
	now := time.Now()
	a.judge(breaker.Success)
	if c.admit(now) != nil {
		return c.deny(DeniedBreaker)
	}
	if !c.d.budget.Retry(now) {
		return c.denyAdmitted(DeniedBudget)
	}
	// An upload that went on meanwhile may have become too large.
	if !c.replay.rewind() {
		return c.denyAdmitted(DeniedBody)
	}
	c.shadow.retry(now)
	return true
}

// denyAdmitted denies a retry that the breaker has admitted.
func (c *call) denyAdmitted(d Denial) bool {
	c.settle(breaker.Ignored)
	return c.deny(d)
}

// deny notes the first reason why a wanted retry is not made.
func (c *call) deny(d Denial) bool {
	if c.denied == "" {
		c.denied = d
	}
	return false
}

// final hands the last attempt's answer on, unless the call ended while a
// better one was waited for.
func (c *call) final(req *http.Request, a *attempt, res *http.Response, why Reason, err error) (*http.Response, error) {
	if c.ctx.Err() != nil {
		if res != nil {
			_ = res.Body.Close()
			res = nil
		}
		err = context.Cause(c.ctx)
		why = whyCut(err)
	}
	c.failure = why
	if res != nil {
		res.Request = req
		if why == "" || c.fallback(badStatus(res.StatusCode)) == nil {
			a.releaseInterim()
		}
	}
	return res, err
}

// discard ends a failed attempt whose answer nobody will see, and gets its
// connection back where that is cheap.
func discard(a *attempt, res *http.Response) {
	if res.ContentLength <= drainBytes {
		stop := time.AfterFunc(drainTime, func() { a.cancel(errCallEnded) })
		_, _ = io.CopyN(io.Discard, res.Body, drainBytes)
		stop.Stop()
	}
	_ = res.Body.Close()
}

// keeps returns how many bytes of a request body are kept for a retry: none
// where no retry is wanted, or the body is known to be too large.
func (p *Retry) keeps(length int64) int64 {
	if p.MaxRetries == 0 || length > p.MaxBodyBytes {
		return 0
	}
	return p.MaxBodyBytes
}

// covers reports whether a failure is one that the policy retries.
func (p *Retry) covers(why Reason, res *http.Response) bool {
	if res != nil {
		return p.OnStatus != nil && p.OnStatus(res.StatusCode)
	}
	return slices.Contains(p.OnReason, why)
}

// idempotent reports whether a request may be sent twice: its method says so
// (RFC 9110 §9.2.2), or its sender does with an Idempotency-Key.
func idempotent(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return r.Header.Get("Idempotency-Key") != ""
}
