package proxy

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"sidecar/resilience/breaker"
)

// A caller that stalls or fails is never the upstream's fault.
func TestVerdictOfABadCaller(t *testing.T) {
	slow := slowAfter(ms(100))
	half := []step{{text: "half"}}
	// ReverseProxy flushes the headers first, and holds a lock as it writes.
	afterFlush := []step{{after: 2 * flushInterval, text: "it"}}
	runVerdicts(t, []verdict{
		{
			name: "upload stalls", change: slow, caller: caller{method: "POST", body: half, length: 100},
			breaker: nothing, status: 408, body: problemBody(408, "The request body did not arrive in time.", ReasonCanceled),
			outcome: OutcomeCanceled, reason: ReasonCanceled, result: ResultCanceled, took: 2 * time.Second,
		},
		{
			name: "upload fails", change: slow, caller: caller{method: "POST", length: 100, body: []step{{text: "half"}, {after: ms(700), err: io.EOF}}},
			breaker: nothing, aborted: true, left: true,
			outcome: OutcomeCanceled, reason: ReasonCanceled, result: ResultCanceled, took: ms(700),
		},
		{
			name: "upload is too large", change: both(slow, func(s *Settings) { s.MaxRequestBytes = 5 }),
			caller:  caller{method: "POST", length: -1, body: []step{{text: "12345"}, {after: ms(200), text: "6"}}},
			breaker: nothing, status: 413, body: problemBody(413, "The request body is larger than the 5 bytes that this dependency takes.", ReasonRequest),
			outcome: OutcomeFailed, reason: ReasonRequest, result: ResultCanceled, took: ms(200),
		},
		{
			name: "upload stalls after an early answer", up: reply{early: true, body: []step{{text: "half"}, {after: forever}}},
			caller:  caller{method: "POST", body: half, length: 100},
			breaker: nothing, status: 200, body: "half", aborted: true,
			outcome: OutcomeCanceled, reason: ReasonCanceled, result: ResultCanceled, took: 2 * time.Second,
		},
		{
			name: "does not read", caller: caller{hears: forever}, up: reply{body: append(afterFlush, step{text: "more"})},
			breaker: nothing, status: 200, aborted: true,
			outcome: OutcomeCanceled, reason: ReasonCanceled, result: ResultCanceled, took: 2*time.Second + unblockGrace,
		},
		{
			name: "does not read the end", caller: caller{hears: forever}, up: reply{body: afterFlush},
			breaker: success, status: 200, aborted: true,
			outcome: OutcomeCanceled, reason: ReasonCanceled, result: ResultSuccess, took: 2*time.Second + unblockGrace,
		},
		{
			name: "neither sends nor reads", up: reply{early: true, body: append(afterFlush, step{text: "more"})},
			caller:  caller{method: "POST", body: half, length: 100, hears: forever},
			breaker: nothing, status: 200, aborted: true,
			outcome: OutcomeCanceled, reason: ReasonCanceled, result: ResultCanceled, took: 2*time.Second + unblockGrace,
		},
	})
}

// The answer of an attempt that began before the breaker changed its state
// counts for nothing.
func TestLateVerdict(t *testing.T) {
	bubble(t, both(trips(1), noTries), func(r *rig) {
		r.up.will(reply{after: ms(1500), status: 500}, reply{after: ms(1600)}, reply{fails: errReset}, reply{})
		late := []*answer{r.start(caller{}), r.start(caller{})}
		synctest.Wait()
		r.get("/trip")
		r.wantState(breaker.Open)
		time.Sleep(ms(1100))
		r.get("/probe")
		r.wantState(breaker.Closed)
		for _, a := range late {
			a.wait()
		}
		r.wantState(breaker.Closed)
		r.wantEvidence(nothing)
		if len(r.changes) != 3 {
			r.Errorf("%d changes of state, want 3", len(r.changes))
		}
	})
}

// A closed connection of the sidecar is closed for the upstream at once.
func TestUpstreamIsLetGo(t *testing.T) {
	for _, c := range []struct {
		name   string
		caller caller
		after  time.Duration
	}{{"caller left", caller{leaves: ms(200)}, ms(200)}, {"attempt timeout", caller{}, ms(500)}} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, nil, func(r *rig) {
				var closed time.Duration
				began := time.Now()
				r.d.current.Load().pool.instead = roundTripperFunc(func(req *http.Request) (*http.Response, error) {
					r.up.seen = append(r.up.seen, &request{})
					<-req.Context().Done()
					closed = time.Since(began)
					return nil, req.Context().Err()
				})
				r.call(c.caller)
				if closed != c.after {
					r.Errorf("let go after %v, want %v", closed, c.after)
				}
			})
		})
	}
}
