package proxy

import (
	"net/http"
	"slices"
	"testing"
	"time"
)

// Latency is added before the upstream is asked; its answer is its own.
func TestDrillLatency(t *testing.T) {
	for _, ask := range []caller{{}, {method: "POST", body: text("x")}} {
		bubble(t, slowAfter(ms(300)), func(r *rig) {
			r.d.Drill(drillLatency)
			r.up.will(reply{after: ms(199), body: text("it")})
			got := r.call(ask)
			got.want(t, 200, "it", ms(499))
			r.wantDrilled(got, "latency 300ms", "", false)
			r.wantEvidence(slowSuccess)
			if asked := r.up.request(0).at.Sub(got.began); asked != ms(300) {
				r.Errorf("the upstream was asked after %v, want 300ms", asked)
			}
			if a := r.attempts[0]; a.Headers != ms(499) || a.Drill != FaultLatency {
				r.Errorf("heard %+v", a)
			}
		})
	}
}

// The wait and the upstream's own time share one attempt_timeout.
func TestDrillLatencyInAttemptTimeout(t *testing.T) {
	late := problemBody(504, "The dependency did not answer in time.", ReasonTimeout)
	for _, ask := range []caller{{method: "PUT"}, {method: "PUT", body: text("x")}} {
		bubble(t, nil, func(r *rig) {
			r.d.Drill(drillLatency)
			r.up.will(reply{after: ms(201), body: text("it")})
			got := r.call(ask)
			got.want(t, 504, late, ms(500))
			r.wantDrilled(got, "latency 300ms", `sidecar; error=http_response_timeout; details="timeout"`, false)
			r.wantEvidence(failure)
		})
		bubble(t, nil, func(r *rig) {
			order := drillLatency
			order.Latency = ms(500)
			r.d.Drill(order)
			got := r.call(ask)
			got.want(t, 504, problemBody(504, "Fire drill: The dependency did not answer in time.", ReasonTimeout), ms(500))
			r.wantDrilled(got, "latency 500ms", drillStatus, true)
			r.wantEvidence(failure)
			if got := r.results(); !slices.Equal(got, []Result{"timeout"}) {
				r.Errorf("results %v, want timeout", got)
			}
		})
	}
}

// Whatever ends a call ends the wait: its timeout, its caller's patience, its
// caller. A caller is never the upstream's fault, but it may have seen it slow.
func TestDrillLatencyIsCutShort(t *testing.T) {
	order := Drill{Fault: FaultLatency, Latency: time.Hour, Share: 1, For: time.Hour}
	for _, c := range []struct {
		name   string
		ask    caller
		status int
		why    Reason
		took   time.Duration
		want   evidence
	}{
		{"timeout", caller{}, 504, ReasonTimeout, 2 * time.Second, evidence{1, 1, 1}},
		{"deadline", caller{header: http.Header{"X-Request-Timeout-Ms": {"700"}}}, 504, ReasonDeadline, ms(700), slowSuccess},
		{"leaves", caller{leaves: ms(400)}, 0, ReasonCanceled, ms(400), slowSuccess},
		{"leaves early", caller{leaves: ms(299)}, 0, ReasonCanceled, ms(299), nothing},
		{"leaves its upload", caller{method: "PUT", body: text("x"), leaves: ms(400)}, 0, ReasonCanceled, ms(400), slowSuccess},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, both(noTries, slowAfter(ms(300))), func(r *rig) {
				r.d.Drill(order)
				got := r.call(c.ask)
				if h := r.lastCall(); got.status != c.status || h.Reason != c.why || got.took != c.took {
					r.Errorf("got %d after %v, %s; want %d after %v, %s", got.status, got.took, h.Reason, c.status, c.took, c.why)
				}
				r.wantEvidence(c.want)
			})
		})
	}
}

// A timed-out attempt would have been sent, so what is not idempotent is not
// made again; what is idempotent meets the drill anew.
func TestDrillLatencyAndRetries(t *testing.T) {
	order := drillLatency
	order.Latency = time.Second
	bubble(t, both(retries(1), timeouts(ms(500), 0)), func(r *rig) {
		r.d.Drill(order)
		r.call(caller{method: "POST", body: text("x")})
		if h := r.lastCall(); h.Attempts != 1 || h.Denied != DeniedMethod {
			r.Errorf("heard %+v, want one attempt, denied by its method", h)
		}
		r.get("/")
		if h := r.lastCall(); h.Attempts != 2 || h.Duration != time.Second {
			r.Errorf("heard %+v, want two attempts in 1s", h)
		}
		if s := r.d.Snapshot().Drill; s.Injected != 3 {
			r.Errorf("%d injected, want 3", s.Injected)
		}
	})
}

// A kept-alive connection that had died is replaced; the attempt has met its
// drill already and is not held up again.
func TestDrillIsMetOnceByAnAttempt(t *testing.T) {
	bubble(t, slowAfter(ms(300)), func(r *rig) {
		r.d.Drill(drillLatency)
		r.up.will(reply{dead: true, fails: errReset}, reply{body: text("it")})
		got := r.call(caller{method: "POST", body: text("x")})
		got.want(t, 200, "it", ms(300))
		r.wantDrilled(got, "latency 300ms", "", false)
		r.wantEvidence(slowSuccess)
		if s := r.d.Snapshot().Drill; s.Injected != 1 {
			r.Errorf("%d injected, want 1", s.Injected)
		}
	})
}
