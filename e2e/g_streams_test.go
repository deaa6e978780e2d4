package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// What happened: events arrived in clumps, minutes late or never, because
// something on the way collected them.
// Right: headers at once, each line within 100 ms, whatever the type says.
func TestG3_EventsInClumps(t *testing.T) {
	t.Parallel()
	for name, lines := range map[string][]string{
		"event stream":              {"Content-Type: text/event-stream", "Transfer-Encoding: chunked"},
		"event stream with charset": {"Content-Type: text/event-stream; charset=utf-8", "Transfer-Encoding: chunked"},
		"chunked JSON":              {"Content-Type: application/json", "Transfer-Encoding: chunked"},
		"no type":                   {"Transfer-Encoding: chunked"},
		"until the end":             {"Content-Type: text/event-stream", "Connection: close"},
		"of known length":           {"Content-Type: application/octet-stream", "Content-Length: 40"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const events = 4
			written := make(chan time.Time, events)
			u := newUpstream(t, func(x *exchange) {
				x.head(http.StatusOK, lines...)
				if !x.delay(time.Second) {
					return
				}
				for i := range events {
					if i > 0 && !x.delay(300*time.Millisecond) {
						return
					}
					written <- time.Now()
					if event := fmt.Sprintf("data: %02d\n\n", i); strings.HasPrefix(lines[len(lines)-1], "T") {
						x.chunk(event)
					} else {
						x.write(event)
					}
				}
				if strings.HasPrefix(lines[len(lines)-1], "T") {
					x.chunk("")
				}
				x.over = strings.HasPrefix(lines[len(lines)-1], "Connection")
			})
			s := start(t, wrapped+"    timeout: 0s\n    attempt_timeout: 10s\n", u)
			c := s.dial(t, "A")
			c.get(t, "/events")
			res, err := http.ReadResponse(c.in, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			wantWithin(t, "the headers", time.Since(c.sent), 100*time.Millisecond)
			for i := range events {
				buffer := make([]byte, 100)
				n, _ := res.Body.Read(buffer)
				wantWithin(t, fmt.Sprintf("event %d", i), time.Since(<-written), 100*time.Millisecond)
				if got := string(buffer[:n]); got != fmt.Sprintf("data: %02d\n\n", i) {
					t.Errorf("event %d is %q", i, got)
				}
			}
			if n, err := res.Body.Read(make([]byte, 1)); n != 0 || err.Error() != "EOF" {
				t.Errorf("after the last event: %d, %v", n, err)
			}
		})
	}
}

// streaming has one dependency for streams and one for ordinary calls, both
// with a timeout of 2 s and a rule against slow calls.
const streaming = `
defaults:
  breaker: {window: 100, min_calls: 1, failure_ratio: 0.5, slow_call: {after: 1s, ratio: 0.5}, cooldown: 1s, jitter: 0, ramp: 0s}
  attempt_timeout: 2s
  timeout: 2s
dependencies:
  - {name: a, listen: $A, upstream: "http://$U"}
`

// What happened: streams died after exactly so many seconds, by a deadline on
// the connection that meant whole requests.
// Right: a stream lives as long as something comes, ends cleanly, and is
// neither slow nor failed; an ordinary answer is cut at its timeout, and looks
// cut.
func TestG4_DeadlineKillsStream(t *testing.T) {
	t.Parallel()
	const events = 40
	u := newUpstream(t, func(x *exchange) {
		kind := "text/plain"
		if x.req.URL.Path == "/events" {
			kind = "text/event-stream"
		}
		x.head(http.StatusOK, "Content-Type: "+kind, "Transfer-Encoding: chunked")
		for range events {
			if !x.delay(200 * time.Millisecond) {
				return
			}
			x.chunk("data: x\n\n")
		}
		x.chunk("")
	})
	s := start(t, streaming, u)
	c := s.dial(t, "A")
	c.get(t, "/events")
	cut := s.get("A", "/plain")
	if cut.err == nil || cut.status != http.StatusOK {
		t.Errorf("the ordinary answer: %v, want one cut off", cut)
	}
	wantTook(t, "cutting it", cut.took, 2*time.Second)
	s.wantMetric(t, 1, "sidecar_requests_total", "dependency", "a", "outcome", "failed")
	s.force(t, "a", "closed") // the one failure is enough to open
	r := c.response(http.MethodGet)
	if r.err != nil || strings.Count(r.body, "data: x\n\n") != events {
		t.Errorf("the stream brought %d events (%v)", strings.Count(r.body, "data"), r.err)
	}
	if r.took < 6*time.Second {
		t.Errorf("the stream lasted %s", r.took)
	}
	if b := s.api(t, "a").Breaker.Window; b.Slow != 0 || b.Failures > 1 {
		t.Errorf("the breaker counted %+v", b)
	}
	s.wantMetric(t, 1, "sidecar_requests_total", "dependency", "a", "outcome", "ok")
	s.wantMetric(t, 1, "sidecar_request_duration_seconds_count", "dependency", "a")
}

// What happened: a stream whose upstream had silently died was held for ever.
// Right: after idle_timeout of silence it is broken off, and looks broken; one
// that says something now and then lives.
func TestG5_SilentStream(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(x *exchange) {
		x.head(http.StatusOK, "Content-Type: text/event-stream", "Transfer-Encoding: chunked")
		x.chunk("data: x\n\n")
		if x.req.URL.Path == "/silent" {
			x.hang()
			return
		}
		for range 4 {
			if !x.delay(600 * time.Millisecond) {
				return
			}
			x.chunk(": still here\n")
		}
		x.chunk("")
	})
	s := start(t, streaming+"\n", u)
	s.reload(t, strings.Replace(streaming, "name: a,", "name: a, idle_timeout: 1s,", 1))
	live := s.dial(t, "A")
	live.get(t, "/live")
	if r := s.get("A", "/silent"); r.err == nil || r.body != "data: x\n\n" || r.took < 900*time.Millisecond {
		t.Errorf("the silent stream: %v, want it broken off", r)
	} else {
		wantTook(t, "breaking it off", r.took, time.Second)
	}
	if r := live.response(http.MethodGet); r.err != nil || strings.Count(r.body, "still here") != 4 {
		t.Errorf("the live stream: %v", r)
	}
	if lines := s.logs("msg", "call", "outcome", "failed", "reason", "timeout", "path", "/silent"); len(lines) != 1 {
		t.Errorf("%d lines tell of the silent stream", len(lines))
	}
}
