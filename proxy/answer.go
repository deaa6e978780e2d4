package proxy

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// degrade is the one place where a call that was refused, or that failed, gets
// its answer: from the first fallback that has one, else from the sidecar
// itself. A caller that has left gets none.
func (c *call) degrade(t trouble) {
	c.refused = t.refused
	if t.refused {
		c.shadow.refuse(t.why)
	}
	if t.status == statusCanceled {
		// Returning would make net/http send an empty 200.
		c.conclude(OutcomeCanceled, ReasonCanceled)
		panic(http.ErrAbortHandler)
	}
	if f := c.fallback(t); f != nil {
		c.substitute(f, t)
		return
	}
	c.commit(c.leaveUpload())
	switch {
	case t.refused:
		c.conclude(OutcomeRejected, t.why)
	case t.why == ReasonCanceled:
		c.conclude(OutcomeCanceled, t.why)
	default:
		c.conclude(OutcomeFailed, t.why)
	}
	c.problem(t)
}

// substitute answers from a fallback.
func (c *call) substitute(f answerer, t trouble) {
	c.commit(c.leaveUpload())
	c.conclude(OutcomeFallback, t.why)
	f.answer(c, t)
}

// leaveUpload gives up on the upload, and reports whether it was cut off. One
// that its caller holds back until 100 Continue is not asked for any more.
func (c *call) leaveUpload() (cutOff bool) {
	switch {
	case c.body.complete():
		return false
	case c.body.pending(), c.r.Header.Get("Expect") != "":
		c.body.interrupt()
		return true
	default:
		return !c.body.drain()
	}
}

// problem is the sidecar's own answer.
func (c *call) problem(t trouble) {
	h := c.w.Header()
	h["Proxy-Status"] = []string{t.proxyStatus()}
	if t.status == http.StatusServiceUnavailable {
		h["Retry-After"] = []string{c.retryAfter(t)}
	}
	if isGRPC(c.r.Header) {
		c.answerGRPC(t)
		return
	}
	body := c.d.problemOf(t)
	h["Content-Type"] = []string{"application/problem+json"}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	c.write(t.status, body)
}

// problemOf returns the body that tells of trouble. What can go wrong is a short
// list, so each is written once.
func (d *Dependency) problemOf(t trouble) []byte {
	if known, ok := d.problems.Load(t); ok {
		return known.([]byte)
	}
	body, err := json.Marshal(problem{
		Status: t.status, Title: http.StatusText(t.status), Detail: t.detail,
		Dependency: d.name, Reason: t.why,
	})
	if err != nil {
		panic(err) // strings and a number always marshal
	}
	body = append(body, '\n')
	d.problems.Store(t, body)
	return body
}

// problem is the body of the sidecar's own answers, RFC 9457. It never names
// the upstream's address.
type problem struct {
	Status     int    `json:"status"`
	Title      string `json:"title"`
	Detail     string `json:"detail"`
	Dependency string `json:"dependency"`
	Reason     Reason `json:"reason"`
}

// retryAfter returns whole seconds, at least one: the time left of an open
// circuit, rounded up so that a caller who obeys does not come too early.
func (c *call) retryAfter(t trouble) string {
	if t.why != ReasonOpen {
		return "1"
	}
	left := c.d.breaker.RetryAfter(time.Now())
	return strconv.FormatInt(max(1, int64((left+time.Second-1)/time.Second)), 10)
}

// proxyStatus is the value of Proxy-Status, RFC 9209.
func (t trouble) proxyStatus() string {
	if t.drill {
		return drillStatus
	}
	if t.why == ReasonStatus {
		return "sidecar; received-status=" + strconv.Itoa(t.status) + `; details="` + string(t.why) + `"`
	}
	return "sidecar; error=" + t.proxy + `; details="` + string(t.why) + `"`
}

// write sends a whole answer; net/http leaves the body out where none is
// allowed (RFC 9110 §6.4.1).
func (c *call) write(status int, body []byte) {
	c.status = status
	c.w.WriteHeader(status)
	if bodyAllowed(status) && c.r.Method != http.MethodHead {
		_, _ = c.w.Write(body)
	}
}

func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// modifyResponse is ReverseProxy's question about a response that is about to
// go out. A failed one is held back where a fallback can answer instead.
func modifyResponse(res *http.Response) error {
	c := callOf(res.Request.Context())
	if c.failure == ReasonStatus {
		t := c.marked(badStatus(res.StatusCode))
		if f := c.fallback(t); f != nil {
			return errDegraded{t, f}
		}
		c.conclude(OutcomeFailed, ReasonStatus)
	} else {
		c.conclude(OutcomeOK, "")
		c.keepCopy(res)
	}
	c.status, c.passing = res.StatusCode, true
	if _, ok := res.Header["Content-Type"]; !ok {
		// net/http would guess one.
		c.w.Header()["Content-Type"] = nil
	}
	c.commit(!c.body.complete())
	return nil
}

// errDegraded carries a held-back response's trouble, and the fallback found
// for it, to [handleError].
type errDegraded struct {
	trouble
	by answerer
}

func (errDegraded) Error() string { return "a fallback answers instead" }

// handleError is where ReverseProxy leaves a call for which it has no
// response.
func handleError(_ http.ResponseWriter, req *http.Request, err error) {
	c := callOf(req.Context())
	if c.passing {
		// The upgraded connection was there, but its caller no longer was.
		panic(http.ErrAbortHandler)
	}
	if d, ok := err.(errDegraded); ok { //nolint:errorlint // it comes as it was returned
		c.substitute(d.by, d.trouble)
		return
	}
	c.degrade(c.whyEnded(err))
}
