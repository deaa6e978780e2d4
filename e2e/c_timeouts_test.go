package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// What happened: queue, attempts and backoff each had a limit of their own,
// and callers waited for the sum of them.
// Right: timeout bounds everything together.
func TestC3_DeadlineSpansEverything(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, hang)
	v := newUpstream(t, func(x *exchange) {
		if x.req.URL.Path != "/busy" {
			x.hang()
			return
		}
		x.head(200, "Content-Length: 2")
		if x.delay(400 * time.Millisecond) {
			x.write("ok")
		}
	})
	s := start(t, base+`
dependencies:
  - name: free
    listen: $FREE
    upstream: http://$U
    attempt_timeout: 400ms
    timeout: 1s
    retry: {max_retries: 5}
  - name: queued
    listen: $QUEUED
    upstream: http://$U2
    attempt_timeout: 400ms
    timeout: 1s
    retry: {max_retries: 5}
    bulkhead: {max_concurrent: 1, queue_timeout: 900ms}
`, u, v)
	r := s.get("FREE", "/")
	if r.status != http.StatusGatewayTimeout || r.reason() != "timeout" {
		t.Errorf("without a queue: %v", r)
	}
	wantTook(t, "the call without a queue", r.took, time.Second)
	if n := u.requests(); n > 3 {
		t.Errorf("%d attempts, want at most 3", n)
	}

	busy := make(chan result, 1)
	go func() { busy <- s.get("QUEUED", "/busy") }()
	v.await(t, 1)
	r = s.get("QUEUED", "/")
	if r.status != http.StatusGatewayTimeout || r.reason() != "timeout" {
		t.Errorf("behind a queue: %v", r)
	}
	wantTook(t, "the call behind a queue", r.took, time.Second)
	if r := <-busy; r.status != http.StatusOK {
		t.Errorf("the call that held the permit: %v", r)
	}
	if n := v.requests() - 1; n > 3 {
		t.Errorf("%d attempts behind a queue, want at most 3", n)
	}
}

// What happened: the time that a caller needs to send its body counted as the
// upstream's: long uploads failed and opened the circuit.
// Right: attempt_timeout begins when the body has been sent. A caller that
// stalls is cut off at timeout, and that is its own doing.
func TestC4_SlowUploadIsNotTheUpstreams(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(x *exchange) {
		body, err := x.body()
		if err == nil && x.delay(200*time.Millisecond) {
			x.respond(200, fmt.Sprint(len(body)))
		}
	})
	s := start(t, one, u)
	for _, framing := range []string{"Content-Length: 1200", "Transfer-Encoding: chunked"} {
		c := s.dial(t, "A")
		c.send(t, "POST /slow HTTP/1.1\r\nHost: a.test\r\n"+framing+"\r\n\r\n")
		sent := c.sent
		for range 12 {
			time.Sleep(100 * time.Millisecond)
			part := strings.Repeat("x", 100)
			if strings.HasPrefix(framing, "T") {
				part = "64\r\n" + part + "\r\n"
			}
			c.send(t, part)
		}
		if strings.HasPrefix(framing, "T") {
			c.send(t, "0\r\n\r\n")
		}
		r := c.response(http.MethodPost)
		if r.status != http.StatusOK || r.body != "1200" {
			t.Errorf("%s over %s: %v", framing, time.Since(sent), r)
		}
		c.leave()
	}
	c := s.dial(t, "A")
	c.send(t, "POST /stalls HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000\r\n\r\nbegun")
	x := u.exchange(t, 3)
	r := c.response(http.MethodPost)
	if r.status != 0 && r.status != http.StatusRequestTimeout {
		t.Errorf("a stalled upload: %v", r)
	}
	wantTook(t, "the stalled upload", r.took, 2*time.Second)
	if rest, err := io.ReadAll(c.in); len(rest) > 0 || err != nil {
		t.Errorf("the connection of a stalled upload goes on: %q, %v", rest, err)
	}
	if !poll(time.Second, func() bool { return !x.goneAt().IsZero() }) {
		t.Errorf("the upstream still waits for a stalled upload")
	}
	s.wantMetric(t, 1, "sidecar_requests_total", "dependency", "a", "outcome", "canceled")
	s.wantMetric(t, 0, "sidecar_requests_total", "dependency", "a", "outcome", "failed")
	if b := s.api(t, "a").Breaker; b.State != "closed" || b.Window.Failures != 0 {
		t.Errorf("the circuit is %s with %d failures, want closed with none", b.State, b.Window.Failures)
	}

	// An upstream that does not take the upload is to blame for it.
	u.handle(hang)
	r = s.do(t.Context(), http.MethodPost, "A", "/ignored", strings.NewReader(strings.Repeat("x", 32<<20)))
	if r.err == nil && r.status != http.StatusGatewayTimeout {
		t.Errorf("an upload that the upstream does not take: %v", r)
	}
	wantTook(t, "the upload that the upstream does not take", r.took, 2*time.Second)
	s.wantMetric(t, 1, "sidecar_attempts_total", "dependency", "a", "result", "timeout")
	s.wantMetric(t, 1, "sidecar_requests_total", "dependency", "a", "outcome", "failed")
}

// What happened: dead calls went on retrying, and goroutines and connections
// outlived their callers.
// Right: no attempt after the caller left, and the upstream's connection is
// closed as soon as nobody waits for its answer.
func TestC5_NoWorkForCallersWhoLeft(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, fails(503))
	s := start(t, base+`
dependencies:
  - name: retried
    listen: $RETRIED
    upstream: http://$U
    timeout: 30s
    breaker: {mode: "off"}
    retry: {max_retries: 5, backoff: {base: 300ms, max: 300ms}, budget: {min_per_second: 1000}}
  - {name: hung, listen: $HUNG, upstream: http://$U, breaker: {mode: "off"}}
  - {name: brief, listen: $BRIEF, upstream: http://$U, attempt_timeout: 20ms, breaker: {mode: "off"}}
`, u)
	const callers = 10
	left := map[string]time.Time{}
	for i := range callers {
		path := fmt.Sprintf("/%d", i)
		seen := u.requests()
		c := s.dial(t, "RETRIED")
		c.get(t, path)
		u.await(t, seen+1)
		c.leave()
		left[path] = time.Now()
	}
	s.wantMetric(t, callers, "sidecar_requests_total", "dependency", "retried", "outcome", "canceled")
	time.Sleep(time.Until(left["/9"].Add(500 * time.Millisecond))) // longer than any backoff
	for i := range u.requests() {
		x := u.exchange(t, i+1)
		gone := left[x.req.URL.Path]
		if x.start.After(gone.Add(refusal + noise(gone.Add(-tolerance)))) {
			t.Errorf("%s was attempted %s after its caller left", x.req.URL.Path, x.start.Sub(gone))
		}
	}

	// The permit of a call that waits for its next attempt goes with the caller.
	u.handle(func(x *exchange) { x.respond(503, "no", "Retry-After: 20") })
	c, seen := s.dial(t, "RETRIED"), u.requests()
	c.get(t, "/later")
	u.await(t, seen+1)
	if !poll(time.Second, func() bool { return s.api(t, "retried").Bulkhead.InUse == 1 }) {
		t.Errorf("a call that waits for its next attempt holds no permit")
	}
	time.Sleep(50 * time.Millisecond)
	gone := time.Now()
	c.leave()
	s.wantIdle(t, "retried", time.Second)
	wantWithin(t, "ending a backoff that nobody waits for", time.Since(gone), 200*time.Millisecond)
	if n := u.requests() - seen; n != 1 {
		t.Errorf("%d attempts within a Retry-After of 20 s, want 1", n)
	}

	u.handle(hang)
	c, seen = s.dial(t, "HUNG"), u.requests()
	c.get(t, "/left")
	x := u.exchange(t, seen+1)
	gone = time.Now()
	c.leave()
	if !poll(time.Second, func() bool { return !x.goneAt().IsZero() }) {
		t.Fatalf("the upstream's connection outlives its caller")
	}
	wantWithin(t, "closing after the caller left", x.goneAt().Sub(gone), 200*time.Millisecond)
	r := s.get("HUNG", "/timeout")
	x = u.exchange(t, seen+2)
	if r.status != http.StatusGatewayTimeout || !poll(time.Second, func() bool { return !x.goneAt().IsZero() }) {
		t.Fatalf("the upstream's connection outlives the attempt's timeout: %v", r)
	}
	wantWithin(t, "closing after the attempt's timeout", x.goneAt().Sub(r.sent.Add(500*time.Millisecond)), 200*time.Millisecond)

	// Many times over; what they leave behind is checked at the end.
	const repeats = 250
	for range repeats / 10 {
		together(10, func(i int) result { return s.abandon("HUNG", "/", time.Duration(2*i)*time.Millisecond) })
		together(10, func(int) result { return s.get("BRIEF", "/") })
	}
	s.wantMetric(t, repeats, "sidecar_attempts_total", "dependency", "brief", "result", "timeout")
	if !poll(time.Second, func() bool { return u.running() == 0 }) {
		t.Errorf("%d requests still run at the upstream", u.running())
	}
}

// What happened: an answer cut off at the deadline ended like a complete one,
// and callers took half a page for the whole.
// Right: the transfer is broken off so that any caller notices, and the
// failure counts.
func TestC6_CutOffMustNotLookComplete(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(x *exchange) {
		switch x.req.URL.Path {
		case "/length":
			x.head(200, "Content-Length: 1000")
		case "/chunked":
			x.head(200, "Transfer-Encoding: chunked")
		case "/unframed":
			x.head(200, "Connection: close")
			x.over = true
		}
		for x.req.URL.Path == "/chunked" && x.delay(50*time.Millisecond) {
			x.chunk("part")
		}
		for x.delay(50 * time.Millisecond) {
			x.write("part")
		}
	})
	s := start(t, one+"    timeout: 700ms\n    breaker: {consecutive_failures: 100}\n", u)
	cut := 0.0
	for _, path := range []string{"/length", "/chunked", "/unframed"} {
		for _, version := range []string{"1.1", "1.0"} {
			c := s.dial(t, "A")
			c.send(t, "GET "+path+" HTTP/"+version+"\r\nHost: a.test\r\n\r\n")
			var copied bytes.Buffer
			_, err := io.Copy(&copied, c.conn)
			took := time.Since(c.sent)
			cut++
			text := copied.String()
			if !strings.HasPrefix(text, "HTTP/1.") || !strings.Contains(text, "part") {
				t.Fatalf("%s to HTTP/%s: %q, %v", path, version, text, err)
			}
			chunked := strings.Contains(text, "Transfer-Encoding: chunked\r\n")
			length := strings.Contains(text, "Content-Length: 1000\r\n")
			switch {
			case chunked && strings.HasSuffix(text, "0\r\n\r\n"):
				t.Errorf("%s to HTTP/%s was cut off, but ends as if complete", path, version)
			case !chunked && !length && err == nil:
				t.Errorf("%s to HTTP/%s has no length and ended without a reset: it looks complete", path, version)
			}
			wantTook(t, "cutting off "+path+" to HTTP/"+version, took, 700*time.Millisecond)
			c.leave()
		}
	}
	s.wantMetric(t, cut, "sidecar_requests_total", "dependency", "a", "outcome", "failed")
	s.wantMetric(t, cut, "sidecar_attempts_total", "dependency", "a", "result", "timeout")
	if w := s.api(t, "a").Breaker.Window; float64(w.Failures) != cut {
		t.Errorf("the breaker counts %d failures, want %v", w.Failures, cut)
	}
}
