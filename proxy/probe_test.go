package proxy

import (
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sidecar/resilience/breaker"
)

// A3: of a crowd, as many probes go through as are configured.
func TestProbesAreBounded(t *testing.T) {
	bubble(t, both(trips(1), func(s *Settings) { s.Breaker.Probes = 2 }), func(r *rig) {
		r.tripped()
		r.up.will(reply{after: ms(400), body: text("it")})
		var all []*answer
		for range 50 {
			all = append(all, r.start(caller{}))
		}
		synctest.Wait()
		if n := r.up.count(); n != 3 {
			r.Errorf("upstream saw %d probes, want 2", n-1)
		}
		passed := 0
		for _, a := range all {
			if a.wait(); a.status == 200 {
				a.want(t, 200, "it", ms(400))
				passed++
				continue
			}
			a.want(t, 503, probingBody, 0)
		}
		if passed != 2 {
			r.Errorf("%d probes passed, want 2", passed)
		}
		r.wantState(breaker.Closed)
	})
}

// A1: a probe that ends without a verdict gives its place to the next.
func TestProbeIsGivenBack(t *testing.T) {
	for _, c := range []struct {
		name   string
		caller caller
		up     reply
		status int
	}{
		{"caller left", caller{leaves: ms(100)}, reply{after: forever}, 0},
		{"caller left in the body", caller{leaves: ms(100)}, reply{body: []step{{text: "x"}, {after: forever}}}, 200},
		{"upload stalled", caller{method: "PUT", body: text("x"), length: 2}, reply{}, 408},
		{"upload failed", caller{method: "PUT", body: []step{{text: "x"}, {err: net.ErrClosed}}, length: 2}, reply{}, 0},
		{"413", caller{method: "PUT", body: text("123456"), length: -1}, reply{}, 413},
		{"413 known before", caller{method: "PUT", body: text("123456")}, reply{}, 413},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, both(trips(1), func(s *Settings) { s.MaxRequestBytes = 5 }), func(r *rig) {
				r.tripped()
				r.up.will(c.up)
				if got := r.call(c.caller); got.status != c.status {
					r.Errorf("got %d, want %d", got.status, c.status)
				}
				r.wantState(breaker.HalfOpen)
				r.up.will(reply{body: text("it")})
				r.get("/").want(t, 200, "it", 0)
				r.wantState(breaker.Closed)
			})
		})
	}
}

// A probe that finds no permit gives its place back too.
func TestProbeRefusedByBulkhead(t *testing.T) {
	bubble(t, both(trips(1), timeouts(0, time.Minute)), func(r *rig) {
		r.up.will(reply{after: 3 * time.Second}, reply{status: 500})
		long := r.start(caller{})
		synctest.Wait()
		r.get("/trip")
		r.update(func(s *Settings) { s.Bulkhead.MaxConcurrent, s.Bulkhead.MaxWaiting = 1, 0 })
		time.Sleep(time.Second)
		for range 2 {
			if got := r.get("/"); !strings.Contains(got.body, `"queue_full"`) {
				r.Fatalf("got %q, want queue_full", got.body)
			}
		}
		long.wait()
		r.up.will(reply{})
		r.get("/").want(t, 200, "", 0)
		r.wantState(breaker.Closed)
	})
}

// A probe is judged by its headers once its body has flowed attempt_timeout.
func TestProbeWithLongBody(t *testing.T) {
	bubble(t, trips(1), func(r *rig) {
		r.tripped()
		r.up.will(reply{after: ms(100), length: 9, body: []step{{text: "a"}, {after: time.Second, err: errReset}}})
		got := r.start(caller{})
		time.Sleep(ms(600) - 1)
		r.wantState(breaker.HalfOpen)
		r.get("/").want(t, 503, probingBody, 0)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		r.wantState(breaker.Closed)
		if got.wait(); !got.aborted {
			r.Error("the broken body was not passed on as broken")
		}
		r.wantState(breaker.Closed)
	})
	// A body that breaks off before is a failed probe.
	bubble(t, trips(1), func(r *rig) {
		r.tripped()
		r.up.will(reply{length: 9, body: []step{{text: "a"}, {after: ms(499), err: errReset}}})
		r.get("/")
		r.wantState(breaker.Open)
	})
	// Without attempt_timeout there is nothing to wait for.
	bubble(t, both(trips(1), noTries), func(r *rig) {
		r.tripped()
		r.up.will(reply{body: []step{{after: time.Second}}})
		got := r.start(caller{})
		synctest.Wait()
		r.wantState(breaker.Closed)
		got.wait()
	})
}

// A stream and an upgrade are judged by their headers at once.
func TestProbeWithStream(t *testing.T) {
	near, _ := net.Pipe()
	for _, up := range []reply{
		{header: http.Header{"Content-Type": {"text/event-stream"}}, length: -1, body: []step{{after: time.Minute - 1}}},
		{status: 101, header: http.Header{"Upgrade": {"echo"}}, switches: near},
	} {
		bubble(t, trips(1), func(r *rig) {
			r.tripped()
			if up.switches != nil {
				up.switches, _ = net.Pipe()
			}
			r.up.will(up)
			got := r.start(caller{header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {"echo"}}})
			synctest.Wait()
			r.wantState(breaker.Closed)
			got.wait()
		})
	}
}

// A probe that hangs ends at its timeout: half-open never lasts.
func TestProbeThatHangs(t *testing.T) {
	bubble(t, trips(1), func(r *rig) {
		r.tripped()
		r.up.will(reply{after: forever})
		if got := r.get("/"); got.status != 504 || got.took != ms(500) {
			r.Errorf("got %d after %v, want 504 after 500ms", got.status, got.took)
		}
		r.wantState(breaker.Open)
	})
}

// A probe is never retried.
func TestProbeIsNotRetried(t *testing.T) {
	for _, up := range []reply{{status: 503, body: text("no")}, {fails: errReset}, after503("1"), {status: 429}} {
		bubble(t, both(trips(1), retries(3), func(s *Settings) {
			s.Retry.OnStatus = func(status int) bool { return status == 503 || status == 429 }
		}), func(r *rig) {
			r.tripped()
			r.up.will(up)
			r.get("/")
			if c := r.lastCall(); c.Attempts != 1 || c.Denied != DeniedBreaker || c.Duration != 0 {
				r.Errorf("%d attempts in %v, denied %q; want 1 at once, breaker", c.Attempts, c.Duration, c.Denied)
			}
			want := breaker.Open
			if up.status == 429 {
				want = breaker.Closed // no failure
			}
			r.wantState(want)
		})
	}
}

// A retry that half-open would admit, and the budget does not, leaves the
// probe's place to others at once.
func TestDeniedRetryIsNoProbe(t *testing.T) {
	bubble(t, both(trips(1), retries(1), func(s *Settings) {
		s.Retry.Budget.MinPerSecond, s.Breaker.Cooldown, s.Timeout = 0, ms(500), 0
	}), func(r *rig) {
		busy := after503("1")
		busy.body = []step{{text: "busy"}, {after: 2 * time.Second}}
		r.up.will(busy, reply{})
		denied := r.start(caller{})
		time.Sleep(ms(1500))
		r.get("/probe").want(t, 200, "", 0)
		denied.wait().want(t, 503, "busy", 3*time.Second)
	})
}
