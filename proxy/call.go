package proxy

import (
	"context"
	"errors"
	"net/http"
	"net/textproto"
	"sync"
	"time"

	"sidecar/resilience/breaker"
)

// Why a call's context ended, where the sidecar ended it.
var (
	errTimeout   = errors.New("the call's timeout passed")
	errDeadline  = errors.New("the caller's own deadline passed")
	errAttempt   = errors.New("the attempt's timeout passed")
	errSilent    = errors.New("the stream was silent for its idle timeout")
	errLeft      = errors.New("the caller went away")
	errStalled   = errors.New("the caller stopped sending its request body")
	errTooLarge  = errors.New("the request body is larger than max_request_bytes")
	errCallEnded = errors.New("the call has ended")
)

// call is the state of one call from arrival to its last byte. The goroutine
// of the handler owns it; what timers and the Transport's goroutines touch
// stands below mu or is safe for concurrent use itself.
type call struct {
	d      *Dependency
	run    *runtime
	policy *Policy
	route  *Route // nil: the dependency's own policy
	w      http.ResponseWriter
	r      *http.Request
	path   string // escaped, without the query
	start  time.Time

	patient  bool          // the caller said how long it will wait
	patience time.Duration // from start

	ctx    context.Context
	ending callContext
	alarm  alarm
	body   *callerBody // nil when the request has none
	replay *replay     // body, for several attempts; nil likewise

	passInterim func(code int, header textproto.MIMEHeader) error // ReverseProxy's

	waited  time.Duration
	tries   int
	denied  Denial
	status  int
	outcome Outcome
	reason  Reason
	refused bool
	failure Reason  // of the last attempt; empty for a success
	broken  bool    // the upstream's answer broke off after its headers had gone out
	passing bool    // the upstream's answer is on its way to the caller
	tunnel  *tunnel // the upgraded connection, or nil
	source  Source
	age     time.Duration
	stream  bool
	grpc    bool        // the answer is gRPC's
	shadow  *shadowCall // nil without a proposal
	drilled *drill      // that an attempt met, or nil

	mu        sync.Mutex // guards everything below
	permit    breaker.Permit
	latest    *attempt
	committed bool // response headers are on their way: nothing can be substituted
	hurried   bool // the caller's connection has a write deadline
	ended     bool // the handler has returned: the connection is no longer ours
}

// begin opens a call under the settings of this moment.
func (d *Dependency) begin(w http.ResponseWriter, r *http.Request) *call {
	d.inFlight.Add(1)
	now := time.Now()
	d.arrived.Store(int64(now.Sub(d.created)))
	c := &call{
		d: d, run: d.current.Load(),
		w: w, r: r,
		path: rawPath(r), start: now, ctx: r.Context(),
		outcome: OutcomeCanceled, reason: ReasonCanceled, status: statusCanceled,
	}
	c.policy, c.route = c.run.settings.match(r.Method, c.path)
	// In HTTP/2 a request without a body does not have [http.NoBody].
	if r.Body != nil && r.Body != http.NoBody && r.ContentLength != 0 {
		c.body = newCallerBody(r.Body, c.policy.MaxRequestBytes, c.connection())
	}
	c.patience, c.patient = patience(r)
	d.budget.Call(c.start)
	return c
}

// connection returns the means to flush, hurry or take over the caller's
// connection. Few calls need them.
func (c *call) connection() *http.ResponseController { return http.NewResponseController(c.w) }

// forward returns the request as ReverseProxy gets it: under the call's
// context, with a body that knows whom it waits for.
func (c *call) forward() *http.Request {
	if c.body != nil {
		c.receiveTrailer() // before the request is copied
	}
	r := c.r.WithContext(c.ctx)
	if c.body != nil {
		r.Body = c.body
	}
	return r
}

// commit marks the moment from which nothing can be substituted any more. An
// HTTP/1 connection whose upload may be cut off is closed after the answer:
// what still comes of it must not be taken for the next request. Where it is
// not to be closed, net/http waits for the rest of the upload before it sends
// the answer, which a slow one would delay for ever. In HTTP/2 the stream ends,
// and the connection carries other calls.
func (c *call) commit(cutOff bool) {
	c.mu.Lock()
	c.committed = true
	c.mu.Unlock()
	c.markDrill()
	if cutOff && c.r.ProtoMajor == 1 {
		c.w.Header().Set("Connection", "close")
	}
}

// conclude fixes how the call ends for its caller; the last word counts.
func (c *call) conclude(o Outcome, why Reason) { c.outcome, c.reason = o, why }

// end gives back all that the call held, on every path out of the handler, and
// tells the observer once.
func (c *call) end() {
	c.stopAlarm()
	c.settle(breaker.Ignored)
	c.shadow.end()
	if c.passing && !c.broken {
		c.conclude(OutcomeCanceled, ReasonCanceled)
	}
	c.mu.Lock()
	c.ended = true
	if c.hurried {
		// The caller did read after all: its next call is on this connection.
		_ = c.connection().SetWriteDeadline(time.Time{})
	}
	c.mu.Unlock()
	if c.tunnel != nil {
		c.endTunnel()
	}
	if c.broken {
		c.abort()
	}
	c.body.interrupt()
	c.leaveContext()
	c.d.inFlight.Add(-1)
	duration := time.Since(c.start)
	if c.grpc && c.policy.Timeout > 0 && duration > c.policy.Timeout {
		c.stream = true // HTTP cannot tell a gRPC stream from a call; its life does
	}
	done := Call{
		Dependency: c.d.name, Method: c.r.Method, Path: c.path,
		Status: c.status, Outcome: c.outcome, Reason: c.reason,
		Refused: c.refused, Source: c.source, Age: c.age,
		Attempts: c.tries, Denied: c.denied, Waited: c.waited,
		Duration: duration, Stream: c.stream,
	}
	if c.drilled != nil {
		done.Drill = c.drilled.String()
	}
	c.d.observer.CallDone(done)
}

// breakOff notes that an answer ended too early. One that nobody has seen yet,
// such as that of an attempt to be retried, breaks nothing.
func (c *call) breakOff(why Reason) {
	c.mu.Lock()
	c.broken = c.committed
	c.mu.Unlock()
	c.conclude(OutcomeFailed, why)
}

// abort makes a broken answer look broken. ReverseProxy's panic ends the
// connection without the end that the framing promised; what the upstream did
// send goes out before. To an HTTP/1.0 caller the end of the connection is the
// end of the body, so only a reset can tell.
func (c *call) abort() {
	_ = c.connection().Flush()
	if c.r.ProtoAtLeast(1, 1) {
		return
	}
	conn, _, err := c.connection().Hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(interface{ SetLinger(sec int) error }); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// endTunnel closes an upgraded connection before the call is told as ended.
func (c *call) endTunnel() {
	if errors.Is(context.Cause(c.ctx), errSilent) {
		c.conclude(OutcomeFailed, ReasonTimeout)
	}
	_ = c.tunnel.Close()
}
