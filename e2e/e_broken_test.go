package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// broken is one way in which an answer ends too early.
type broken struct {
	name   string
	end    func(*exchange) // once the caller has the first half
	line   string          // of the call's header, or empty
	leaves bool            // it is the caller that ends it
}

var breaks = []broken{
	{"reset", (*exchange).reset, "", false},
	{"close", (*exchange).close, "", false},
	{"silence", hang, "", false},
	{"garbage", func(x *exchange) {
		x.write("no chunk\r\n")
		x.hang()
	}, "", false},
	{"deadline", hang, "X-Request-Timeout-Ms: 300", false},
	{"caller leaves", hang, "", true},
}

// half is the part of a broken answer that arrives.
var half = strings.Repeat("x", 50)

// sendsHalf is an upstream whose answer stops half-way, and ends once the caller
// has got so far.
func sendsHalf(framing string, got <-chan struct{}, end func(*exchange)) func(*exchange) {
	return func(x *exchange) {
		x.head(http.StatusOK, framing)
		if strings.HasPrefix(framing, "T") {
			x.chunk(half)
		} else {
			x.write(half)
		}
		x.until(got)
		end(x)
	}
}

// breakOff makes a call whose answer breaks off, and returns what came behind
// the first half.
func (s *sidecar) breakOff(t *testing.T, u *upstream, path string, b broken, framing string) (rest string, err error) {
	t.Helper()
	got := make(chan struct{})
	u.handle(sendsHalf(framing, got, func(x *exchange) {
		b.end(x)
		x.close()
	}))
	c := s.dial(t, "A")
	c.send(t, "GET "+path+" HTTP/1.1\r\nHost: a.test\r\n"+fields(b.line)+"\r\n")
	res, err := http.ReadResponse(c.in, nil)
	if err != nil {
		t.Fatalf("%s: %v", b.name, err)
	}
	begun := make([]byte, len(half))
	if _, err := io.ReadFull(res.Body, begun); err != nil || string(begun) != half || res.StatusCode != http.StatusOK || res.Header.Get("Sidecar-Degraded") != "" {
		t.Fatalf("%s: status %d, body %q, %v", b.name, res.StatusCode, begun, err)
	}
	close(got)
	if b.leaves {
		c.leave()
		return "", io.ErrUnexpectedEOF
	}
	more, err := io.ReadAll(res.Body)
	return string(more), err
}

// What happened: a copy was sent behind the half of an answer that had already
// gone out (see [TestE1_FallbackGluedToStartedResponse]), or the half answer
// was kept and shown as whole in the next outage.
// Right: a broken transfer, however the answer broke off; nothing of it is
// kept, and the copy of before stays whole.
func TestE5_BrokenAnswerKept(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, parting(http.StatusOK, "good"))
	s := start(t, base+`
dependencies:
  - name: a
    listen: $A
    upstream: http://$U
    timeout: 600ms
    breaker: {mode: "off"}
    fallback: [{stale: {max_age: 10m}}, {static: {body: FB}}]
`, u)
	n := 0
	for _, framing := range []string{"Content-Length: 100", "Transfer-Encoding: chunked"} {
		for _, b := range breaks {
			if b.name == "garbage" && framing[0] == 'C' {
				continue // any bytes are right there
			}
			n++
			where := fmt.Sprintf("%s, %s", framing, b.name)
			path, fresh := fmt.Sprintf("/page?%d", n), fmt.Sprintf("/fresh?%d", n)
			u.handle(parting(http.StatusOK, "good"))
			if r := s.get("A", path); r.body != "good" {
				t.Fatal(where, r)
			}
			s.wantMetric(t, float64(n), "sidecar_cache_stores_total")
			for _, target := range []string{path, fresh} {
				if rest, err := s.breakOff(t, u, target, b, framing); err == nil || rest != "" {
					t.Errorf("%s: after the first half came %q and %v, want nothing but an error", where, rest, err)
				}
			}
			s.wantMetric(t, float64(2*n), "sidecar_cache_skips_total", "reason", "incomplete")
			u.handle(func(x *exchange) { x.leaving(http.StatusInternalServerError, "no") })
			wantCopy(t, s.get("A", path), "good", "status")
			if r := s.get("A", fresh); r.body != "FB" || !strings.HasPrefix(r.header.Get("Sidecar-Degraded"), "static;") {
				t.Errorf("%s: a target that never came whole: %v", where, r)
			}
		}
	}
	s.wantMetric(t, float64(n), "sidecar_cache_stores_total")
	s.wantMetric(t, float64(n), "sidecar_fallbacks_total", "dependency", "a", "source", "stale")
	if strings.Contains(s.output.text(), "goroutine ") {
		t.Errorf("a stack trace was logged:\n%s", s.output.tail(40))
	}
}

// Right: a circuit that opens while an answer is on its way changes nothing of
// that answer, which is kept when it has come to its end.
func TestE1_CircuitOpensMidway(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, ok)
	s := start(t, stale+`
dependencies:
  - {name: a, listen: $A, upstream: "http://$U", timeout: 5s}
`, u)
	release := make(chan struct{})
	u.handle(func(x *exchange) {
		x.head(http.StatusOK, "Content-Length: 10")
		x.write("first")
		x.until(release)
		x.write("later")
	})
	began := make(chan result, 1)
	go func() { began <- s.get("A", "/slow") }()
	u.await(t, 1)
	time.Sleep(50 * time.Millisecond) // the first half is under way
	s.trip(t, u, "A", "a")
	if r := s.get("A", "/slow"); r.status != http.StatusServiceUnavailable {
		t.Errorf("half an answer stands in: %v", r)
	}
	close(release)
	if r := <-began; r.body != "firstlater" || r.err != nil || r.header.Get("Sidecar-Degraded") != "" {
		t.Errorf("the answer under way: %v", r)
	}
	s.wantMetric(t, 1, "sidecar_cache_stores_total")
	s.force(t, "a", "open")
	wantCopy(t, s.get("A", "/slow"), "firstlater", "open")
}
