package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// What happened: a limit of 0, meant as none, ended everything at once.
// Right: 0 is no limit; an attempt_timeout that is not set is the timeout, and
// a wait without queue_timeout ends at the deadline.
func TestC7_ZeroMeansNoLimit(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(x *exchange) {
		if x.req.URL.Path != "/" {
			x.hang()
		} else if x.delay(1500 * time.Millisecond) {
			x.respond(200, "ok")
		}
	})
	s := start(t, `
defaults:
  breaker: {mode: "off"}
dependencies:
  - {name: no-limit, listen: $NOLIMIT, upstream: http://$U, timeout: 0s, connect_timeout: 0s, idle_timeout: 0s}
  - {name: no-attempt-limit, listen: $NOATTEMPT, upstream: http://$U, timeout: 1s, attempt_timeout: 0s}
  - {name: unset, listen: $UNSET, upstream: http://$U, timeout: 1s}
  - name: queued
    listen: $QUEUED
    upstream: http://$U
    timeout: 1s
    bulkhead: {max_concurrent: 1, queue_timeout: 0s}
    routes: [{match: {path: /holds}, timeout: 10s}]
`, u)
	if r := s.get("NOLIMIT", "/"); r.status != http.StatusOK {
		t.Errorf("without any limit: %v", r)
	}
	for _, port := range []string{"NOATTEMPT", "UNSET"} {
		r := s.get(port, "/hang")
		if r.status != http.StatusGatewayTimeout {
			t.Errorf("%s: %v", port, r)
		}
		wantTook(t, port, r.took, time.Second)
	}
	c := s.dial(t, "QUEUED")
	seen := u.requests()
	c.get(t, "/holds")
	u.await(t, seen+1)
	r := s.get("QUEUED", "/")
	if r.status != http.StatusServiceUnavailable || r.reason() != "queue_timeout" {
		t.Errorf("a wait without queue_timeout: %v", r)
	}
	wantTook(t, "the wait", r.took, time.Second)
	c.leave()
}

// What happened: an address that answers nothing held a call for as long as
// the system tries to connect, minutes.
// Right: connect_timeout bounds it, it counts as a failure, and nobody goes on
// connecting for a call that has ended: else a dead address would hold more
// than its compartment.
func TestC8_UnansweredConnect(t *testing.T) {
	t.Parallel()
	hole := blackhole(t)
	t.Run("bounded", func(t *testing.T) {
		t.Parallel()
		s := start(t, base+`
dependencies:
  - {name: a, listen: $A, upstream: "http://`+hole+`", attempt_timeout: 1500ms, connect_timeout: 300ms}
`)
		for _, r := range together(3, func(int) result { return s.get("A", "/") }) {
			if r.status != http.StatusGatewayTimeout || r.reason() != "timeout" {
				t.Errorf("an unanswered connect: %v", r)
			}
			wantTook(t, "connect_timeout", r.took, 300*time.Millisecond)
		}
		s.awaitState(t, "a", "open", time.Second)
	})
	t.Run("abandoned", func(t *testing.T) {
		t.Parallel()
		s := start(t, base+`
dependencies:
  - {name: a, listen: $A, upstream: "http://`+hole+`", connect_timeout: 10s, attempt_timeout: 300ms}
  - {name: left, listen: $LEFT, upstream: "http://`+hole+`", connect_timeout: 10s}
`)
		r := s.get("A", "/")
		if r.status != http.StatusGatewayTimeout || r.reason() != "timeout" {
			t.Errorf("an unanswered connect: %v", r)
		}
		wantTook(t, "attempt_timeout", r.took, 300*time.Millisecond)
		together(10, func(int) result { return s.abandon("LEFT", "/", 50*time.Millisecond) })
		s.wantIdle(t, "left", time.Second)
		s.wantMetric(t, 0, "sidecar_requests_total", "dependency", "left", "outcome", "failed")
		s.client.CloseIdleConnections() // the callers' own
		var now usage
		if !poll(time.Second, func() bool {
			now, _ = s.usage()
			return now.files <= s.before.files
		}) {
			t.Errorf("%v descriptors more than at the start, though all 11 calls have ended: somebody goes on connecting", now.files-s.before.files)
		}
	})
}

// What happened: every error became 502, so that slow, down, shed and
// abandoned calls could not be told apart.
// Right: each has its status and reason, and a caller who left counts as no
// error at all.
func TestC9_EachErrorItsOwnStatus(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, hang)
	s := start(t, base+`
dependencies:
  - {name: refused, listen: $REFUSED, upstream: "http://`+refused(t)+`"}
  - {name: blackhole, listen: $BLACKHOLE, upstream: "http://`+blackhole(t)+`", connect_timeout: 200ms}
  - {name: hung, listen: $HUNG, upstream: http://$U}
  - {name: full, listen: $FULL, upstream: http://$U, bulkhead: {max_concurrent: 1, max_waiting: 0}}
  - {name: left, listen: $LEFT, upstream: http://$U}
`, u)
	holder := s.dial(t, "FULL")
	holder.get(t, "/held")
	u.await(t, 1)
	check := func(port string, status int, reason, proxyStatus string) {
		t.Helper()
		r := s.get(port, "/"+port)
		if r.status != status || r.reason() != reason {
			t.Errorf("%s: %v, want %d for %s", port, r, status, reason)
		}
		if got := r.header.Get("Proxy-Status"); !strings.Contains(got, proxyStatus) || !strings.Contains(got, "details=\""+reason+"\"") {
			t.Errorf("%s: Proxy-Status %q, want %s", port, got, proxyStatus)
		}
		if !poll(time.Second, func() bool {
			return len(s.logs("msg", "call", "path", "/"+port, "status", fmt.Sprint(status), "reason", reason)) > 0
		}) {
			t.Errorf("%s is logged as %v, want %d for %s", port, s.logs("msg", "call", "path", "/"+port), status, reason)
		}
	}
	check("FULL", 503, "queue_full", "connection_limit_reached")
	holder.leave()
	check("REFUSED", 502, "connect", "connection_refused")
	check("BLACKHOLE", 504, "timeout", "connection_timeout")
	check("HUNG", 504, "timeout", "http_response_timeout")
	together(2, func(int) result { return s.get("REFUSED", "/") })
	check("REFUSED", 503, "open", "destination_unavailable")

	if r := s.abandon("LEFT", "/left", 100*time.Millisecond); r.status != 0 {
		t.Errorf("a caller who left got %v", r)
	}
	s.wantMetric(t, 1, "sidecar_requests_total", "dependency", "left", "outcome", "canceled")
	s.wantMetric(t, 1, "sidecar_requests_total", "dependency", "left")
	if !poll(time.Second, func() bool {
		return len(s.logs("msg", "call", "path", "/left", "status", "499", "outcome", "canceled")) == 1
	}) {
		t.Errorf("a caller who left is logged as %v, want status 499 and outcome canceled", s.logs("msg", "call", "path", "/left"))
	}
	if d := s.api(t, "left"); d.Breaker.Window.Failures != 0 {
		t.Errorf("a caller who left counts as %d failures", d.Breaker.Window.Failures)
	}
}
