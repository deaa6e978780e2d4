package proxy

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"sidecar/resilience/breaker"
)

// retries makes attempts be repeated at once, for every reason and for 503.
func retries(n int) func(*Settings) {
	return func(s *Settings) {
		s.Retry.MaxRetries = n
		s.Retry.OnReason = []Reason{ReasonConnect, ReasonReset, ReasonTimeout}
		s.Retry.OnStatus = func(status int) bool { return status == 503 }
		s.Retry.Budget.MinPerSecond = 100
		s.Retry.MaxBodyBytes = 50
	}
}

func timeouts(attempt, all time.Duration) func(*Settings) {
	return func(s *Settings) { s.AttemptTimeout, s.Timeout = attempt, all }
}

// attempt_timeout runs from the end of the upload.
func TestAttemptTimeoutAfterUpload(t *testing.T) {
	upload := caller{method: "PUT", body: []step{{text: "a"}, {after: ms(700), text: "b"}}}
	bubble(t, nil, func(r *rig) {
		r.up.will(reply{after: ms(499), body: text("it")}, reply{after: ms(501)})
		r.call(upload).want(t, 200, "it", ms(1199))
		r.call(upload).want(t, 504, problemBody(504, "The dependency did not answer in time.", ReasonTimeout), ms(1200))
	})
}

// It ends at the headers, also where the upload goes on after them.
func TestAttemptTimeoutAndEarlyAnswer(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		r.up.will(reply{early: true, body: []step{{text: "a"}, {after: time.Second, text: "b"}}})
		r.call(caller{method: "PUT", body: []step{{text: "a"}, {after: ms(100), text: "b"}}}).want(t, 200, "ab", time.Second)
		r.wantEvidence(success)
	})
}

// C3: waiting, attempts and backoff share one deadline.
func TestDeadlineSpansEverything(t *testing.T) {
	change := both(timeouts(ms(400), time.Second), retries(5), func(s *Settings) { s.Bulkhead.MaxConcurrent = 1 })
	late := problemBody(504, "The dependency did not answer in time.", ReasonTimeout)
	bubble(t, change, func(r *rig) {
		r.up.will(reply{after: forever})
		r.get("/").want(t, 504, late, time.Second)
		if c := r.lastCall(); c.Attempts != 3 || c.Denied != DeniedDeadline {
			r.Errorf("%d attempts, denied %q; want 3, deadline", c.Attempts, c.Denied)
		}
	})
	bubble(t, change, func(r *rig) {
		r.up.will(reply{after: ms(400) - 1}, reply{after: forever})
		r.start(caller{})
		synctest.Wait()
		r.get("/").want(t, 504, late, time.Second)
		if c := r.lastCall(); c.Attempts != 2 || c.Waited != ms(400)-1 {
			r.Errorf("%d attempts after waiting %v; want 2, %v", c.Attempts, c.Waited, ms(400)-1)
		}
	})
}

// A deadline that passes in the queue is the queue's doing.
func TestDeadlineInQueue(t *testing.T) {
	change := both(timeouts(0, time.Second), func(s *Settings) {
		s.Bulkhead.MaxConcurrent, s.Bulkhead.QueueTimeout = 1, 0
		s.Routes = []Route{{Path: "/long", Policy: Policy{}}}
	})
	bubble(t, change, func(r *rig) {
		r.up.will(reply{after: forever})
		r.start(caller{target: "/long", leaves: 3 * time.Second})
		synctest.Wait()
		time.Sleep(ms(100))
		r.get("/").want(t, 503, problemBody(503, "No permit of this dependency became free in time.", ReasonQueueTimeout), time.Second)
	})
}

// Without timeouts only the caller ends a call.
func TestNoDeadline(t *testing.T) {
	bubble(t, timeouts(0, 0), func(r *rig) {
		r.up.will(reply{after: time.Hour, body: []step{{after: time.Hour, text: "it"}}})
		r.get("/").want(t, 200, "it", 2*time.Hour)
	})
}

// An event stream leaves the deadline at its headers; its silence ends it.
func TestEventStream(t *testing.T) {
	for _, kind := range []string{"text/event-stream", "Text/Event-Stream; charset=utf-8"} {
		header := http.Header{"Content-Type": {kind}}
		bubble(t, nil, func(r *rig) {
			r.up.will(reply{header: header, length: -1, body: []step{
				{text: "1"}, {after: ms(59999), text: "2"}, {after: ms(59999), text: "3"}, {after: ms(59999)},
			}})
			r.get("/").want(t, 200, "123", 3*ms(59999))
			if c := r.lastCall(); !c.Stream || c.Outcome != OutcomeOK {
				r.Errorf("heard %+v, want a stream that ended well", c)
			}
			r.wantEvidence(success)
		})
		bubble(t, nil, func(r *rig) {
			r.up.will(reply{header: header, length: -1, body: []step{{after: time.Second, text: "1"}, {after: forever}}})
			got := r.get("/")
			if !got.aborted || got.body != "1" || got.took != 61*time.Second {
				r.Errorf("got %q, aborted=%v after %v; want 1, aborted after 61s", got.body, got.aborted, got.took)
			}
			if c := r.lastCall(); c.Outcome != OutcomeFailed || c.Reason != ReasonTimeout {
				r.Errorf("heard %s %s, want failed timeout", c.Outcome, c.Reason)
			}
			r.wantEvidence(success)
		})
	}
}

// Without idle_timeout a stream may be silent for ever.
func TestEventStreamWithoutIdleTimeout(t *testing.T) {
	bubble(t, func(s *Settings) { s.IdleTimeout = 0 }, func(r *rig) {
		r.up.will(reply{header: http.Header{"Content-Type": {"text/event-stream"}}, length: -1, body: []step{{after: forever, text: "1"}}})
		r.get("/").want(t, 200, "1", forever)
	})
}

// A caller that reads late, but in time, keeps a connection that works: the
// write deadline that would have freed the permit is taken back.
func TestWriteDeadlineIsTakenBack(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		r.up.will(reply{body: []step{{after: 2 * flushInterval, text: "it"}}})
		got := r.call(caller{hears: 2*time.Second + unblockGrace/2})
		got.want(t, 200, "it", 2*time.Second+unblockGrace/2)
		if !got.deadline.IsZero() {
			r.Errorf("the connection's next answer must be written by %v", got.deadline)
		}
	})
}

// The answer to a call that timed out is written without haste.
func TestTimeoutAnswerHasNoWriteDeadline(t *testing.T) {
	bubble(t, noTries, func(r *rig) {
		r.up.will(reply{after: forever})
		got := r.call(caller{hears: 3 * time.Second})
		if got.took != 3*time.Second || got.aborted || !got.deadline.IsZero() {
			r.Errorf("took %v, aborted=%v, deadline %v; want 3s and none", got.took, got.aborted, got.deadline)
		}
		r.wantState(breaker.Closed)
	})
}
