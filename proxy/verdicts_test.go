package proxy

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"sidecar/resilience/breaker"
)

var (
	errRefused = &dialError{&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}}
	errTLS     = &dialError{&tlsError{io.EOF}}
	errReset   = &net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	errDial    = &dialError{os.ErrDeadlineExceeded}
)

// verdict is a row of the table of verdicts: what happens, and what breaker,
// caller and observer are told of it.
type verdict struct {
	name    string
	change  func(*Settings)
	up      reply
	caller  caller
	breaker evidence
	status  int // to the caller, and to the observer unless left
	body    string
	aborted bool
	left    bool // no status is sent: 499 to the observer
	outcome Outcome
	reason  Reason
	result  Result
	took    time.Duration
}

var (
	success     = evidence{calls: 1}
	failure     = evidence{calls: 1, failures: 1}
	slowSuccess = evidence{calls: 1, slow: 1}
	nothing     = evidence{}
)

// slowAfter sets the rule about slow calls, so that their count is kept.
func slowAfter(d time.Duration) func(*Settings) {
	return func(s *Settings) { s.Breaker.SlowCall = breaker.SlowCall{After: d, Ratio: 1} }
}

func both(all ...func(*Settings)) func(*Settings) {
	return func(s *Settings) {
		for _, f := range all {
			f(s)
		}
	}
}

// noTries leaves only the whole call's timeout.
func noTries(s *Settings) { s.AttemptTimeout = 0 }

func runVerdicts(t *testing.T, rows []verdict) {
	t.Helper()
	for _, v := range rows {
		t.Run(v.name, func(t *testing.T) {
			bubble(t, v.change, func(r *rig) {
				r.up.will(v.up)
				got := r.call(v.caller)
				synctest.Wait()
				r.wantEvidence(v.breaker)
				if got.status != v.status || got.body != v.body || got.aborted != v.aborted || got.took != v.took {
					r.Errorf("caller got %d %q aborted=%v after %v; want %d %q %v %v",
						got.status, got.body, got.aborted, got.took, v.status, v.body, v.aborted, v.took)
				}
				status := v.status
				if v.left {
					status = statusCanceled
				}
				c := r.lastCall()
				if c.Outcome != v.outcome || c.Reason != v.reason || c.Status != status || c.Duration != v.took || c.Attempts != 1 {
					r.Errorf("observer heard %s %q %d after %v, %d attempts; want %s %q %d %v 1",
						c.Outcome, c.Reason, c.Status, c.Duration, c.Attempts, v.outcome, v.reason, status, v.took)
				}
				if res := r.results(); !slices.Equal(res, []Result{v.result}) {
					r.Errorf("attempts ended as %v, want %v", res, v.result)
				}
			})
		})
	}
}

// What the upstream answers is passed on untouched, whatever the verdict.
func TestVerdictOfAStatus(t *testing.T) {
	var rows []verdict
	for _, status := range []int{200, 201, 302, 400, 401, 404, 429, 501, 505} {
		rows = append(rows, verdict{
			name: fmt.Sprint(status), up: reply{status: status, body: text("it")}, breaker: success,
			status: status, body: "it", outcome: OutcomeOK, result: ResultSuccess,
		})
	}
	for _, status := range []int{500, 502, 503, 504, 599} {
		rows = append(rows, verdict{
			name: fmt.Sprint(status), up: reply{status: status, body: text("it")}, breaker: failure,
			status: status, body: "it", outcome: OutcomeFailed, reason: ReasonStatus, result: Result(ReasonStatus),
		})
	}
	runVerdicts(t, rows)
}

// An attempt without an answer is a failure, and its kind decides the status.
func TestVerdictOfAnError(t *testing.T) {
	fails := func(name string, up reply, body string, status int, why Reason, took time.Duration) verdict {
		return verdict{
			name: name, up: up, breaker: failure, status: status, body: body,
			outcome: OutcomeFailed, reason: why, result: Result(why), took: took,
		}
	}
	connect := problemBody(502, "No connection to the dependency could be made.", ReasonConnect)
	reset := problemBody(502, "The dependency closed the connection before its answer was complete.", ReasonReset)
	late := problemBody(504, "The dependency did not answer in time.", ReasonTimeout)
	rows := []verdict{
		fails("refused", reply{noConn: true, fails: errRefused}, connect, 502, ReasonConnect, 0),
		fails("TLS", reply{noConn: true, fails: errTLS}, connect, 502, ReasonConnect, 0),
		fails("no name", reply{noConn: true, fails: &dialError{&net.DNSError{IsNotFound: true}}}, connect, 502, ReasonConnect, 0),
		fails("connect timeout", reply{noConn: true, fails: errDial, after: ms(300)},
			problemBody(504, "No connection to the dependency could be made in time.", ReasonTimeout), 504, ReasonTimeout, ms(300)),
		fails("reset", reply{fails: errReset}, reset, 502, ReasonReset, 0),
		fails("closed", reply{fails: io.EOF, after: ms(100)}, reset, 502, ReasonReset, ms(100)),
		fails("nonsense", reply{fails: fmt.Errorf("malformed HTTP response")},
			problemBody(502, "What the dependency sent is not a valid HTTP response.", ReasonProtocol), 502, ReasonProtocol, 0),
		fails("attempt timeout", reply{after: forever}, late, 504, ReasonTimeout, ms(500)),
		fails("call timeout", reply{after: forever}, late, 504, ReasonTimeout, 2*time.Second),
	}
	rows[len(rows)-1].change = noTries
	runVerdicts(t, rows)
}

// A body that does not come to its end breaks the caller's transfer.
func TestVerdictOfABody(t *testing.T) {
	runVerdicts(t, []verdict{
		{
			name: "broken off", up: reply{length: 100, body: []step{{text: "half"}, {after: ms(700), err: io.ErrUnexpectedEOF}}},
			breaker: failure, status: 200, body: "half", aborted: true,
			outcome: OutcomeFailed, reason: ReasonReset, result: Result(ReasonReset), took: ms(700),
		},
		{
			name: "unfinished at the timeout", up: reply{length: 100, body: []step{{text: "half"}, {after: forever}}},
			breaker: failure, status: 200, body: "half", aborted: true,
			outcome: OutcomeFailed, reason: ReasonTimeout, result: Result(ReasonTimeout), took: 2 * time.Second,
		},
		{
			name: "of a failing status, broken off", up: reply{status: 500, length: 100, body: []step{{text: "half"}, {err: errReset}}},
			breaker: failure, status: 500, body: "half", aborted: true,
			outcome: OutcomeFailed, reason: ReasonReset, result: Result(ReasonReset),
		},
		{
			name: "slow but whole", up: reply{body: []step{{text: "a"}, {after: ms(1900), text: "b"}}},
			breaker: success, status: 200, body: "ab", outcome: OutcomeOK, result: ResultSuccess, took: ms(1900),
		},
	})
}

// Slowness is measured to the headers, from the end of the request body.
func TestVerdictOfSlowHeaders(t *testing.T) {
	rule := both(slowAfter(ms(300)), noTries)
	runVerdicts(t, []verdict{
		{
			name: "just in time", change: rule, up: reply{after: ms(300) - 1, body: []step{{after: ms(600), text: "it"}}},
			breaker: success, status: 200, body: "it", outcome: OutcomeOK, result: ResultSuccess, took: ms(900) - 1,
		},
		{
			name: "late", change: rule, up: reply{after: ms(300)},
			breaker: slowSuccess, status: 200, outcome: OutcomeOK, result: ResultSuccess, took: ms(300),
		},
		{
			name: "late and failing", change: rule, up: reply{after: ms(400), status: 500},
			breaker: evidence{1, 1, 1}, status: 500, outcome: OutcomeFailed, reason: ReasonStatus, result: Result(ReasonStatus), took: ms(400),
		},
		{
			name: "after a slow upload", change: rule, up: reply{after: ms(200)},
			caller:  caller{method: "PUT", body: []step{{text: "a"}, {after: ms(400), text: "b"}}},
			breaker: success, status: 200, outcome: OutcomeOK, result: ResultSuccess, took: ms(600),
		},
		{
			name: "caller gone before it is late", change: rule, up: reply{after: forever}, caller: caller{leaves: ms(299)},
			breaker: nothing, aborted: true, left: true, outcome: OutcomeCanceled, reason: ReasonCanceled, result: ResultCanceled, took: ms(299),
		},
		{
			name: "caller gone when it is late", change: rule, up: reply{after: forever}, caller: caller{leaves: ms(300)},
			breaker: slowSuccess, aborted: true, left: true, outcome: OutcomeCanceled, reason: ReasonCanceled, result: ResultCanceled, took: ms(300),
		},
		{
			name: "caller gone with half its body sent", change: rule, up: reply{},
			caller:  caller{method: "PUT", leaves: ms(700), body: []step{{text: "a"}, {after: forever, text: "b"}}},
			breaker: nothing, aborted: true, left: true, outcome: OutcomeCanceled, reason: ReasonCanceled, result: ResultCanceled, took: ms(700),
		},
		{
			name: "caller gone in the body", change: rule, up: reply{after: ms(100), length: 100, body: []step{{text: "half"}, {after: forever}}},
			caller:  caller{leaves: ms(1500)},
			breaker: nothing, status: 200, body: "half", aborted: true, outcome: OutcomeCanceled, reason: ReasonCanceled, result: ResultCanceled, took: ms(1500),
		},
		{
			name: "caller gone in the body after late headers", change: rule, up: reply{after: ms(300), length: 100, body: []step{{text: "half"}, {after: forever}}},
			caller:  caller{leaves: ms(1500)},
			breaker: slowSuccess, status: 200, body: "half", aborted: true, outcome: OutcomeCanceled, reason: ReasonCanceled, result: ResultCanceled, took: ms(1500),
		},
		{
			name: "caller gone in the body of a failing status", change: rule, up: reply{status: 500, length: 100, body: []step{{text: "half"}, {after: forever}}},
			caller:  caller{leaves: ms(1500)},
			breaker: failure, status: 500, body: "half", aborted: true, outcome: OutcomeCanceled, reason: ReasonCanceled, result: Result(ReasonStatus), took: ms(1500),
		},
	})
}

// problemBody is the sidecar's own answer as it goes over the wire.
func problemBody(status int, detail string, why Reason) string {
	return fmt.Sprintf(`{"status":%d,"title":%q,"detail":%q,"dependency":"payments","reason":%q}`+"\n",
		status, http.StatusText(status), detail, why)
}
