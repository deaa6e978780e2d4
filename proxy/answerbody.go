package proxy

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"sidecar/resilience/breaker"
	"sidecar/stale"
)

var errSwitch = errors.New("the upstream switched to a protocol that was not asked for")

// judgeHeaders judges an attempt by its response headers as far as they tell,
// and puts a body around the response that tells the rest.
func (a *attempt) judgeHeaders(req *http.Request, res *http.Response) (*http.Response, Reason, error) {
	if res.StatusCode == http.StatusSwitchingProtocols {
		return a.judgeUpgrade(req, res)
	}
	b := &answerBody{ReadCloser: res.Body, a: a, res: res, result: ResultSuccess}
	res.Body = b
	code, ended := grpcStatus(res.Header)
	grpc := isGRPC(res.Header)
	if !grpc {
		code = 0
	}
	a.said(res.StatusCode, code)
	switch {
	case a.c.policy.Failure(res.StatusCode), grpc && ended && a.c.policy.failsGRPC(code):
		b.result = Result(ReasonStatus)
		a.judge(breaker.Failure)
		return res, ReasonStatus, nil
	case eventStream(res):
		a.c.stream = true
		a.judge(breaker.Success)
		a.c.leaveDeadline()
		b.idle = a.watchSilence()
	case grpc && !ended:
		b.grpc, a.c.grpc = true, true
		a.c.leaveDeadline()
		b.idle = a.watchSilence()
		if a.probe {
			a.judgeProbe()
		}
	case a.probe:
		a.judgeProbe()
	}
	a.c.shadow.awaitBody(a.c.policy.AttemptTimeout, a.wait)
	return res, "", nil
}

// judgeUpgrade judges a 101, which must be what the caller asked for (RFC 9110
// §7.8).
func (a *attempt) judgeUpgrade(req *http.Request, res *http.Response) (*http.Response, Reason, error) {
	conn, ok := res.Body.(io.ReadWriteCloser)
	asked := req.Header.Get("Upgrade")
	if !ok || asked == "" || !strings.EqualFold(asked, res.Header.Get("Upgrade")) {
		_ = res.Body.Close()
		return nil, ReasonProtocol, errSwitch
	}
	a.c.stream = true
	a.judge(breaker.Success)
	a.c.leaveDeadline()
	a.c.tunnel = &tunnel{ReadWriteCloser: conn, a: a, idle: a.watchSilence()}
	res.Body = a.c.tunnel
	return res, "", nil
}

func eventStream(res *http.Response) bool {
	kind, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(kind), "text/event-stream")
}

// answerBody is the upstream's answer on its way down. Its end is the
// attempt's: a clean one a success, any other a failure of whoever caused it.
type answerBody struct {
	io.ReadCloser
	a      *attempt
	res    *http.Response
	grpc   bool             // the verdict is in the trailers
	result Result           // what a clean end means; a failure status stays one
	idle   *silence         // nil unless a stream
	tee    *stale.Recording // nil unless the answer goes into the stale store
}

// Read passes bytes down and watches for the end.
func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.idle.heard()
		b.tee.Write(p[:n])
	}
	switch err {
	case nil:
	case io.EOF:
		b.complete()
	default:
		b.broken(b.a.whyFailed(err))
	}
	return n, err
}

// complete ends an attempt whose answer has come to its end. A gRPC answer says
// only now how it went.
func (b *answerBody) complete() {
	b.idle.stop()
	cleanTrailer(b.res.Trailer)
	if b.grpc {
		b.judgeTrailers()
	}
	b.a.judge(breaker.Success)
	b.a.finish(b.result)
	b.tee.Commit()
}

// judgeTrailers judges a gRPC answer by the status in its trailers; a missing
// one counts as UNKNOWN.
func (b *answerBody) judgeTrailers() {
	code, said := grpcStatus(b.res.Trailer)
	if !said {
		code = grpcUnknown
	}
	b.a.said(b.res.StatusCode, code)
	if b.a.c.policy.failsGRPC(code) {
		b.result = Result(ReasonStatus)
		b.a.c.conclude(OutcomeFailed, ReasonStatus)
		b.a.judge(breaker.Failure)
	}
}

// failsGRPC reports whether a gRPC status is a failure.
func (p *Policy) failsGRPC(code int) bool { return p.FailureGRPC != nil && p.FailureGRPC(code) }

// broken ends an attempt in the middle of its body.
func (b *answerBody) broken(why Reason) {
	b.idle.stop()
	b.tee.Abandon()
	if why == ReasonCanceled {
		b.a.c.conclude(OutcomeCanceled, why)
		b.a.judge(breaker.Ignored)
		b.a.finish(b.unread())
		return
	}
	b.a.c.breakOff(why)
	if why == ReasonDeadline {
		b.a.judge(breaker.Ignored)
		b.a.finish(ResultCanceled)
		return
	}
	b.a.judge(breaker.Failure)
	b.a.finish(Result(why))
}

// Close ends the answer. Without an end read before, it was the caller who did
// not want, or could not take, the rest.
func (b *answerBody) Close() error {
	b.idle.stop()
	if !b.a.ended() {
		b.broken(ReasonCanceled)
	}
	return b.ReadCloser.Close()
}

// unread is the result of an attempt whose answer was not read to its end: the
// headers may have told already.
func (b *answerBody) unread() Result {
	if b.result == ResultSuccess {
		return ResultCanceled
	}
	return b.result
}

// tunnel is an upgraded connection. It keeps the half-close that protocols in
// it may need.
type tunnel struct {
	io.ReadWriteCloser
	a    *attempt
	idle *silence
}

// Read passes the upstream's bytes on.
func (t *tunnel) Read(p []byte) (int, error) {
	n, err := t.ReadWriteCloser.Read(p)
	if n > 0 {
		t.idle.heard()
	}
	return n, err
}

// Write passes the caller's bytes on.
func (t *tunnel) Write(p []byte) (int, error) {
	t.idle.heard()
	return t.ReadWriteCloser.Write(p)
}

// CloseWrite tells the upstream that the caller sends no more.
func (t *tunnel) CloseWrite() error {
	if half, ok := t.ReadWriteCloser.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Close ends the tunnel.
func (t *tunnel) Close() error {
	t.idle.stop()
	t.a.finish(ResultSuccess)
	return t.ReadWriteCloser.Close()
}

// silence ends a stream that says nothing for its idle timeout. A nil silence
// waits for ever.
type silence struct {
	timer *time.Timer
	limit time.Duration
}

func (a *attempt) watchSilence() *silence {
	limit := a.c.policy.IdleTimeout
	if limit <= 0 {
		return nil
	}
	return &silence{limit: limit, timer: time.AfterFunc(limit, func() { a.c.cancel(errSilent) })}
}

func (s *silence) heard() {
	if s != nil {
		s.timer.Reset(s.limit)
	}
}

func (s *silence) stop() {
	if s != nil {
		s.timer.Stop()
	}
}
