package e2e

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// What happened: nobody heeded the caller's deadline, so that work went on
// that nobody waited for, or the deadline was passed on as if no time had
// been spent.
// Right: it cuts the call; what is left goes on in the same header; the
// breaker has nothing against the upstream.
func TestG6_CallersDeadline(t *testing.T) {
	t.Parallel()
	c := grpcUp(t, "", nil)
	told := make(chan http.Header, 10)
	gone := make(chan time.Duration, 10)
	c.v.handle(func(w http.ResponseWriter, r *http.Request) {
		told <- r.Header
		if r.URL.Path == "/now" {
			says(1, 0, "")(w, r)
			return
		}
		began := time.Now()
		if r.URL.Path == "/stream" {
			w.Header().Set("Content-Type", "application/grpc")
			_, _ = io.WriteString(w, message)
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
		gone <- time.Since(began)
	})
	if r := c.invoke(t, "/now"); r.code != 0 {
		t.Fatal(r)
	}
	<-told
	r := c.invoke(t, "/hang", "Grpc-Timeout: 300m")
	if r.code != 4 || r.status != http.StatusOK || !strings.HasPrefix(r.message, "deadline: ") {
		t.Errorf("grpc-timeout: %v", r)
	}
	wantTook(t, "the caller's deadline", r.took, 300*time.Millisecond)
	left := (<-told).Get("Grpc-Timeout")
	if unit := left[len(left)-1]; unit != 'u' && unit != 'n' {
		t.Errorf("the upstream was told %s", left)
	} else if n, err := strconv.Atoi(left[:len(left)-1]); err != nil || n <= 0 || unit == 'u' && n >= 300_000 {
		t.Errorf("the upstream was told %s, want less than 300m", left)
	}
	wantWithin(t, "ending it at the upstream", <-gone, 400*time.Millisecond)

	// A stream leaves timeout behind, but not its caller's deadline.
	r = c.invoke(t, "/stream", "Grpc-Timeout: 2500m")
	if r.err == nil || r.body != message {
		t.Errorf("the stream: %v, want it broken off", r)
	}
	wantTook(t, "the stream", r.took, 2500*time.Millisecond)
	<-told

	for header, want := range map[string]string{"Grpc-Timeout: later": "later", "Grpc-Timeout: 123456789S": "123456789S", "X-Other: 1": ""} {
		if r := c.invoke(t, "/now", header); r.code != 0 {
			t.Errorf("%s: %v", header, r)
		}
		if got := (<-told).Get("Grpc-Timeout"); got != want {
			t.Errorf("%s: the upstream was told %q", header, got)
		}
	}
	if r := c.invoke(t, "/now", "Grpc-Timeout: 0n"); r.code != 4 {
		t.Errorf("no time at all: %v", r)
	}
	for len(told) > 0 {
		<-told
	}

	// The same in HTTP.
	res := c.do(context.Background(), http.MethodGet, "A", "/hang", nil, "X-Request-Timeout-Ms: 300")
	if res.status != http.StatusOK || res.body != "FB" || res.header.Get("Sidecar-Degraded") != "static; reason=deadline" {
		t.Errorf("X-Request-Timeout-Ms with a fallback: %v", res)
	}
	wantTook(t, "the caller's deadline", res.took, 300*time.Millisecond)
	if n, err := strconv.Atoi((<-told).Get("X-Request-Timeout-Ms")); err != nil || n < 1 || n > 300 {
		t.Errorf("the upstream was told %d ms (%v)", n, err)
	}
	res = c.do(context.Background(), http.MethodPost, "A", "/hang", nil, "X-Request-Timeout-Ms: 300")
	if res.status != http.StatusGatewayTimeout || res.reason() != "deadline" {
		t.Errorf("X-Request-Timeout-Ms: %v", res)
	}
	if b := c.api(t, "a").Breaker; b.State != "closed" || b.Window.Failures != 0 {
		t.Errorf("the breaker counted %+v", b.Window)
	}
	if n := len(c.logs("msg", "call", "reason", "deadline")); n != 5 {
		t.Errorf("%d lines tell of a deadline, want 5", n)
	}
}

// What happened: a stream of messages was bounded like a call.
// Right: it lives while messages come, idle_timeout ends it when none do, and
// it is judged by the status at its end: UNAVAILABLE counts.
func TestG6_ServerStream(t *testing.T) {
	t.Parallel()
	c := grpcUp(t, "    timeout: 500ms\n    idle_timeout: 1500ms\n", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		rc := http.NewResponseController(w)
		for range 5 {
			_, _ = io.WriteString(w, message)
			_ = rc.Flush()
			select {
			case <-time.After(300 * time.Millisecond):
			case <-r.Context().Done():
				return
			}
		}
		if r.URL.Path == "/silent" {
			<-r.Context().Done()
			return
		}
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "14")
	})
	r := c.invoke(t, "/stream")
	if r.code != 14 || r.body != strings.Repeat(message, 5) || r.took < 1400*time.Millisecond {
		t.Errorf("the stream: %v", r)
	}
	c.wantMetric(t, 1, "sidecar_attempts_total", "dependency", "a", "result", "status")
	r = c.invoke(t, "/silent")
	if r.err == nil || r.body != strings.Repeat(message, 5) {
		t.Errorf("the silent stream: %v, want it broken off", r)
	}
	wantTook(t, "the silent stream", r.took, 1200*time.Millisecond+1500*time.Millisecond)
	c.wantOutcomes(t, "a", map[string]float64{"failed": 2})
	c.wantMetric(t, 0, "sidecar_request_duration_seconds_count", "dependency", "a")
}
