package proxy

import (
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"sidecar/resilience/breaker"
)

// after503 is a 503 that asks for a wait.
func after503(wait string) reply {
	return reply{status: 503, header: http.Header{"Retry-After": {wait}}, body: text("busy")}
}

// Which failures are retried, and why others are not.
func TestWhatIsRetried(t *testing.T) {
	key := http.Header{"Idempotency-Key": {"k"}}
	busy, reset, refused, hangs := reply{status: 503}, reply{fails: errReset}, reply{noConn: true, fails: errRefused}, reply{after: forever}
	for _, c := range []struct {
		name   string
		caller caller
		first  reply
		tries  int
		denied Denial
		status int
	}{
		{"GET 503", caller{}, busy, 2, "", 200},
		{"HEAD 503", caller{method: "HEAD"}, busy, 2, "", 200},
		{"OPTIONS 503", caller{method: "OPTIONS"}, busy, 2, "", 200},
		{"PUT reset", caller{method: "PUT", body: text("x")}, reset, 2, "", 200},
		{"DELETE timeout", caller{method: "DELETE"}, hangs, 2, "", 200},
		{"GET 500 is not on the list", caller{}, reply{status: 500}, 1, "", 500},
		{"GET protocol is not on the list", caller{}, reply{fails: errSwitch}, 1, "", 502},
		{"POST 503", caller{method: "POST", body: text("x")}, busy, 1, DeniedMethod, 503},
		{"POST reset", caller{method: "POST", body: text("x")}, reset, 1, DeniedMethod, 502},
		{"POST without a body, reset", caller{method: "POST"}, reset, 1, DeniedMethod, 502},
		{"POST timeout", caller{method: "POST", body: text("x")}, hangs, 1, DeniedMethod, 504},
		{"PATCH reset", caller{method: "PATCH", body: text("x")}, reset, 1, DeniedMethod, 502},
		{"POST refused", caller{method: "POST", body: text("x")}, refused, 2, "", 200},
		{"POST with a key 503", caller{method: "POST", header: key, body: text("x")}, busy, 2, "", 200},
		{"POST with a key reset", caller{method: "POST", header: key, body: text("x")}, reset, 2, "", 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, retries(1), func(r *rig) {
				r.up.will(c.first, reply{})
				got := r.call(c.caller)
				h := r.lastCall()
				if got.status != c.status || h.Attempts != c.tries || h.Denied != c.denied {
					r.Errorf("got %d after %d attempts, denied %q; want %d, %d, %q", got.status, h.Attempts, h.Denied, c.status, c.tries, c.denied)
				}
				if c.tries == 2 && total(c.caller.body) > 0 && !c.first.noConn && r.up.request(1).body != "x" {
					r.Errorf("the second attempt's body is %q, want x", r.up.request(1).body)
				}
			})
		})
	}
}

// What is not on the list is not retried, and with none allowed nothing is.
func TestRetryIsOptional(t *testing.T) {
	for _, change := range []func(*Settings){nil, func(s *Settings) { s.Retry.MaxRetries = 1 }} {
		for _, up := range []reply{{status: 503}, {fails: errReset}, {noConn: true, fails: errRefused}} {
			bubble(t, change, func(r *rig) {
				r.up.will(up)
				r.get("/")
				if h := r.lastCall(); h.Attempts != 1 || h.Denied != "" {
					r.Errorf("%d attempts, denied %q; want 1 and none", h.Attempts, h.Denied)
				}
			})
		}
	}
}

// The last answer is passed on as it is, and each attempt is counted.
func TestRetriesAreBounded(t *testing.T) {
	bubble(t, retries(2), func(r *rig) {
		r.up.will(reply{status: 503}, reply{fails: errReset}, reply{status: 503, body: text("third")}, reply{})
		r.get("/").want(t, 503, "third", 0)
		if got := r.results(); !slices.Equal(got, []Result{"status", "reset", "status"}) {
			r.Errorf("results %v", got)
		}
		if a := r.attempts; a[0].Retry || !a[1].Retry || !a[2].Retry {
			r.Errorf("retries are not marked: %+v", a)
		}
		if h := r.lastCall(); h.Outcome != OutcomeFailed || h.Reason != ReasonStatus || h.Denied != "" {
			r.Errorf("heard %+v, want failed by status, nothing denied", h)
		}
		r.wantEvidence(evidence{calls: 3, failures: 3})
	})
}

// D10: nothing of a failed attempt's answer gets into the next one's.
func TestFailedAttemptLeavesNoTrace(t *testing.T) {
	bad := reply{status: 503, header: http.Header{"X-Bad": {"1"}, "Set-Cookie": {"a=b"}, "Content-Length": {"0"}}}
	good := reply{header: http.Header{"X-Good": {"1"}, "Content-Length": {"5"}}, body: text("hello")}
	bubble(t, retries(1), func(r *rig) {
		r.up.will(bad, good)
		got := r.get("/")
		got.want(t, 200, "hello", 0)
		if len(got.header) != 3 || got.header.Get("X-Good") != "1" || got.header.Get("Content-Length") != "5" {
			r.Errorf("headers %v, want the second answer's", got.header)
		}
	})
	static := &Static{Status: 200, Header: http.Header{"X-Own": {"1"}}, Body: []byte("own")}
	bubble(t, both(retries(1), func(s *Settings) { s.Fallback = []Fallback{{Static: static}} }), func(r *rig) {
		r.up.will(bad)
		got := r.get("/")
		got.want(t, 200, "own", 0)
		if h := got.header; h.Get("X-Bad") != "" || h.Get("Set-Cookie") != "" || h.Get("Content-Length") != "3" {
			r.Errorf("headers %v, want none of the upstream's", h)
		}
	})
}

// Retry-After is honoured inside the deadline.
func TestRetryAfter(t *testing.T) {
	for _, c := range []struct {
		wait  string
		after time.Duration // between the attempts; negative: denied
	}{
		{"0", 0},
		{"1", time.Second},
		{"Sat, 01 Jan 2000 00:00:01 GMT", time.Second}, // a bubble's clock starts at 2000-01-01
		{"Fri, 31 Dec 1999 23:59:59 GMT", 0},
		{"soon", 0},
		{"2", -1},
		{"999999", -1},
	} {
		t.Run(c.wait, func(t *testing.T) {
			bubble(t, retries(1), func(r *rig) {
				r.up.will(after503(c.wait), reply{body: text("it")})
				if c.after < 0 {
					r.get("/").want(t, 503, "busy", 0)
					if h := r.lastCall(); h.Denied != DeniedDeadline {
						r.Errorf("denied %q, want deadline", h.Denied)
					}
					return
				}
				r.get("/").want(t, 200, "it", c.after)
			})
		})
	}
	for wait, status := range map[string]int{"29": 200, "30": 503} {
		bubble(t, both(retries(1), timeouts(0, 0)), func(r *rig) {
			r.up.will(after503(wait), reply{})
			if got := r.get("/"); got.status != status {
				r.Errorf("Retry-After %s without a deadline: %d, want %d", wait, got.status, status)
			}
		})
	}
}

// A spent budget ends the retries; the upstream's own answer is passed on.
func TestRetryBudget(t *testing.T) {
	bubble(t, both(retries(1), func(s *Settings) { s.Retry.Budget.MinPerSecond = 1 }), func(r *rig) {
		r.up.will(after503("0"))
		r.get("/")
		r.get("/").want(t, 503, "busy", 0)
		if r.calls[0].Attempts != 2 || r.calls[1].Attempts != 1 || r.calls[1].Denied != DeniedBudget {
			r.Errorf("heard %+v, want the second call denied by budget", r.calls)
		}
		r.wantEvidence(evidence{calls: 3, failures: 3})
	})
}

// A circuit that opens while a call waits to retry ends its retries.
func TestBreakerOpensInBackoff(t *testing.T) {
	bubble(t, both(trips(2), retries(3)), func(r *rig) {
		r.up.will(after503("1"), reply{status: 500}, reply{})
		waiting := r.start(caller{target: "/waiting"})
		time.Sleep(ms(500))
		r.get("/trips")
		r.wantState(breaker.Open)
		waiting.wait().want(t, 503, "busy", time.Second)
		if h := r.lastCall(); h.Attempts != 1 || h.Denied != DeniedBreaker || h.Outcome != OutcomeFailed || h.Refused {
			r.Errorf("heard %+v, want one attempt, denied by the breaker", h)
		}
	})
}

// The attempt that opens the circuit ends its own retries at once: before, the
// caller waited out the backoff, only to be refused then.
func TestOpenCircuitIsNotWaitedFor(t *testing.T) {
	long := func(s *Settings) { s.Breaker.Cooldown = 10 * time.Second }
	bubble(t, both(trips(1), retries(3), long), func(r *rig) {
		r.up.will(after503("1"), reply{})
		r.get("/").want(t, 503, "busy", 0)
		if h := r.lastCall(); h.Attempts != 1 || h.Denied != DeniedBreaker {
			r.Errorf("heard %+v, want one attempt, denied by the breaker", h)
		}
	})
}

// C5: a caller that leaves in the backoff causes no further attempt.
func TestCallerLeavesInBackoff(t *testing.T) {
	bubble(t, retries(5), func(r *rig) {
		r.up.will(after503("1"))
		if got := r.call(caller{leaves: ms(300)}); !got.aborted || got.took != ms(300) {
			r.Errorf("aborted=%v after %v, want aborted after 300ms", got.aborted, got.took)
		}
		time.Sleep(time.Minute)
		if h := r.lastCall(); r.up.count() != 1 || h.Outcome != OutcomeCanceled {
			r.Errorf("%d attempts, %s; want 1, canceled", r.up.count(), h.Outcome)
		}
		r.wantEvidence(failure)
	})
	// An attempt without an answer leaves nothing to pass on.
	slow := func(s *Settings) { s.Retry.Backoff.Base, s.Retry.Backoff.Max = time.Hour, time.Hour }
	bubble(t, both(retries(5), timeouts(0, 2*time.Hour), slow, func(s *Settings) {
		s.Fallback = []Fallback{{Static: &Static{Status: 200}}}
	}), func(r *rig) {
		r.up.will(reply{fails: errReset})
		got := r.call(caller{leaves: 1}) // no jitter draws a shorter wait
		if h := r.lastCall(); !got.aborted || h.Outcome != OutcomeCanceled || h.Reason != ReasonCanceled || h.Attempts != 1 {
			r.Errorf("heard %s %q after %d attempts, aborted=%v; want canceled after 1", h.Outcome, h.Reason, h.Attempts, got.aborted)
		}
	})
}

// B6: the sidecar's own refusals are not retried and count for nothing.
func TestRefusalsAreNotRetried(t *testing.T) {
	one := func(s *Settings) { s.Bulkhead.MaxConcurrent, s.Bulkhead.MaxWaiting = 1, 0 }
	bubble(t, both(retries(3), timeouts(0, 0), one), func(r *rig) {
		r.up.will(reply{after: time.Second})
		first := r.start(caller{})
		synctest.Wait()
		for range 30 {
			r.get("/").want(t, 503, problemBody(503, "Every permit and every waiting place of this dependency is taken.", ReasonQueueFull), 0)
		}
		first.wait()
		if r.up.count() != 1 {
			r.Errorf("upstream saw %d requests, want 1", r.up.count())
		}
		r.wantEvidence(success)
	})
}

// A status that is retried but is no failure is a success for the breaker,
// and the attempt after it has a verdict of its own.
func TestRetryOfNoFailure(t *testing.T) {
	bubble(t, both(retries(1), func(s *Settings) { s.Retry.OnStatus = func(status int) bool { return status == 429 } }), func(r *rig) {
		r.up.will(reply{status: 429, body: text("later")}, reply{status: 500})
		r.get("/")
		r.wantEvidence(evidence{calls: 2, failures: 1})
		if got := r.results(); !slices.Equal(got, []Result{"success", "status"}) {
			r.Errorf("results %v, want success, status", got)
		}
	})
}

// A failed answer is read for a moment to get its connection back.
func TestFailedAnswerIsDrained(t *testing.T) {
	for _, c := range []struct {
		body []step
		took time.Duration
	}{
		{[]step{{after: drainTime - 1, text: "busy"}}, drainTime - 1},
		{[]step{{text: "bu"}, {after: forever, text: "sy"}}, drainTime},
	} {
		bubble(t, retries(1), func(r *rig) {
			r.up.will(reply{status: 503, body: c.body}, reply{body: text("it")})
			r.get("/").want(t, 200, "it", c.took)
			if got := r.results(); !slices.Equal(got, []Result{"status", "success"}) {
				r.Errorf("results %v, want status, success", got)
			}
		})
	}
}

// A kept-alive connection that had died before a byte was written is replaced
// without anybody hearing of it, if the body can still be sent.
func TestDeadConnectionIsReplaced(t *testing.T) {
	for _, c := range []caller{{}, {method: "POST"}, {method: "POST", body: text("x")}} {
		bubble(t, nil, func(r *rig) {
			r.up.will(reply{dead: true, fails: errReset}, reply{dead: true, fails: errReset}, reply{body: text("it")})
			r.call(c).want(t, 200, "it", 0)
			if h := r.lastCall(); h.Attempts != 1 || r.up.count() != 3 {
				r.Errorf("%d attempts, %d requests; want 1, 3", h.Attempts, r.up.count())
			}
			r.wantEvidence(success)
		})
	}
}
