package proxy

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sidecar/stale"
)

// drillHeader is on every answer to a call of which an attempt met a drill.
const drillHeader = "Sidecar-Drill"

// errDrillRefused is what the dialer says of a port where nobody listens.
var errDrillRefused = &dialError{&net.OpError{
	Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED),
}}

// meetDrill is where a drill stands: behind the bulkhead, before the
// transport. It returns what the drill gives in the upstream's place, or
// neither an answer nor an error: then the attempt goes on to the upstream.
// Whatever comes of it is judged, retried and replaced as the real thing.
func (a *attempt) meetDrill(req *http.Request) (res *http.Response, err error) {
	d := a.c.d.drills.meet(a.start)
	if d == nil {
		return nil, nil
	}
	a.drill, a.c.drilled = d, d
	switch d.Fault {
	case FaultLatency:
		err = a.heldUp(d)
	case FaultError:
		res, err = a.answerFor(req, d.Status)
	case FaultRefuse:
		err = errDrillRefused
	}
	if a.withheld = res != nil || err != nil; a.withheld {
		a.headersDone()
	}
	return res, err
}

// heldUp waits as for a slow upstream: within attempt_timeout, while the caller
// stays, and no longer than the drill runs. It returns why the wait was cut
// short; the attempt then counts as sent, as it would have been.
func (a *attempt) heldUp(d *drill) error {
	unwatch := a.c.watchCaller() // the body is not read meanwhile
	defer unwatch()
	begun := time.Now()
	wait, late := d.Latency, false
	if t := a.attemptTimeout(); t > 0 && t <= wait {
		wait, late = t, true
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		if late {
			a.cancel(errAttempt)
		}
	case <-d.over:
	case <-a.context().Done():
	}
	a.delayed.by = time.Since(begun)
	err := a.cut()
	a.delayed.cut = err != nil
	return err
}

// answerFor makes an upstream's answer of a status. Like an upstream it takes
// in a request body whose length is known; of one that may never end it does
// not wait for the end. It changes no copies: nothing was learnt.
func (a *attempt) answerFor(req *http.Request, status int) (*http.Response, error) {
	a.ticket = stale.Ticket{}
	if a.body != nil && req.ContentLength > 0 {
		if _, err := io.Copy(io.Discard, a.body); err != nil {
			return nil, err
		}
	}
	const detail = "Fire drill: the sidecar answers in the dependency's place."
	body, err := json.Marshal(problem{
		Status: status, Title: http.StatusText(status), Detail: detail, Dependency: a.c.d.name, Reason: ReasonStatus,
	})
	if err != nil {
		panic(err) // strings and a number always marshal
	}
	text := string(body) + "\n"
	header := http.Header{"Content-Type": {"application/problem+json"}}
	if isGRPC(a.c.r.Header) {
		header = http.Header{
			"Content-Type": {"application/grpc"},
			"Grpc-Status":  {strconv.Itoa(grpcCode(status))},
			"Grpc-Message": {detail},
		}
		status, text = http.StatusOK, ""
	} else {
		header["Content-Length"] = []string{strconv.Itoa(len(text))}
	}
	header["Proxy-Status"] = []string{drillStatus}
	res := &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, ContentLength: int64(len(text)), Body: io.NopCloser(strings.NewReader(text)),
	}
	if req.Method == http.MethodHead {
		res.Body = http.NoBody
	}
	return res, nil
}

// drillStatus is the Proxy-Status of what a drill gave in the upstream's place
// (RFC 9209 §2.3.30): nothing was sent on.
const drillStatus = `sidecar; error=proxy_internal_response; details="drill"`

// marked makes trouble tell that a drill has made it.
func (c *call) marked(t trouble) trouble {
	if c.drilled != nil && c.latest.withheld && slices.Contains(Failures, t.why) {
		t.drill = true
		t.detail = "Fire drill: " + t.detail
	}
	return t
}

// markDrill says on the answer, whoever made it, that a drill touched the call.
func (c *call) markDrill() {
	if c.drilled != nil {
		c.w.Header()[drillHeader] = []string{c.drilled.String()}
	}
}
