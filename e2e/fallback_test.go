package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// stale is base with a stale copy as every dependency's fallback.
const stale = base + `
  fallback: [{stale: {max_age: 10m}}]
`

// hold makes a call that the upstream leaves unanswered. It ends with the test
// or at its timeout.
func (s *sidecar) hold(t *testing.T, u *upstream, port string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var call sync.WaitGroup
	before := u.requests()
	u.handle(hang)
	call.Go(func() { s.do(ctx, http.MethodGet, port, "/hold", nil) })
	t.Cleanup(func() {
		cancel()
		call.Wait()
	})
	u.await(t, before+1)
}

// wantCopy fails the test unless a result is a stale copy that says so.
func wantCopy(t *testing.T, r result, body, reason string) {
	t.Helper()
	if r.status != http.StatusOK || r.body != body || r.err != nil {
		t.Errorf("got %v, want the copy %q", r, body)
		return
	}
	age := r.header.Get("Age")
	if _, err := strconv.Atoi(age); err != nil {
		t.Errorf("Age is %q", age)
	}
	if got, want := r.header.Get("Sidecar-Degraded"), "stale; reason="+reason+"; age="+age; got != want {
		t.Errorf("Sidecar-Degraded is %q, want %q", got, want)
	}
	if got := r.header.Get("Cache-Status"); !strings.HasPrefix(got, "sidecar; hit; ttl=") || !strings.HasSuffix(got, "; detail="+reason) {
		t.Errorf("Cache-Status is %q, want a hit with detail=%s", got, reason)
	}
	if got := r.header.Get("Proxy-Status"); !strings.HasPrefix(got, "sidecar; ") || !strings.HasSuffix(got, fmt.Sprintf("; details=%q", reason)) {
		t.Errorf("Proxy-Status is %q, want the details %q", got, reason)
	}
}

// What happened: an error handler wrote its text behind the half of an answer
// that had already gone out, and the whole looked complete to the caller.
// Right: exactly what the upstream sent, then a broken transfer in every
// framing and for every HTTP version; a failure for the breaker, no fallback.
func TestE1_FallbackGluedToStartedResponse(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, ok)
	s := start(t, base+`
dependencies:
  - name: a
    listen: $A
    upstream: http://$U
    timeout: 500ms
    breaker: {consecutive_failures: 0}
    fallback: [{static: {body: FB}}]
`, u)
	ends := map[string]struct {
		end    func(*exchange)
		result string
	}{"a reset": {(*exchange).reset, "reset"}, "a close": {(*exchange).close, "reset"}, "silence": {hang, "timeout"}}
	calls := map[string]int{}
	for _, framing := range []string{"Content-Length: 100", "Transfer-Encoding: chunked"} {
		for name, e := range ends {
			for _, version := range []string{"1.1", "1.0"} {
				calls[e.result]++
				got := make(chan struct{})
				u.handle(sendsHalf(framing, got, e.end))
				c := s.dial(t, "A")
				c.send(t, "GET /page HTTP/"+version+"\r\nHost: a.test\r\n\r\n")
				where := fmt.Sprintf("%s, %s, HTTP/%s", framing, name, version)
				res, err := http.ReadResponse(c.in, nil)
				if err != nil {
					t.Fatalf("%s: %v", where, err)
				}
				begun := make([]byte, len(half))
				if _, err := io.ReadFull(res.Body, begun); err != nil || string(begun) != half || res.StatusCode != http.StatusOK {
					t.Fatalf("%s: status %d, body %q, %v", where, res.StatusCode, begun, err)
				}
				close(got)
				if rest, err := io.ReadAll(res.Body); err == nil || len(rest) > 0 {
					t.Errorf("%s: after the first half came %q and %v, want nothing but an error", where, rest, err)
				}
			}
		}
	}
	all := calls["reset"] + calls["timeout"]
	s.wantMetric(t, float64(all), "sidecar_requests_total", "dependency", "a", "outcome", "failed")
	for result, n := range calls {
		s.wantMetric(t, float64(n), "sidecar_attempts_total", "dependency", "a", "result", result)
		if got := len(s.logs("msg", "call", "outcome", "failed", "reason", result)); got != n {
			t.Errorf("%d calls logged as %s, want %d", got, result, n)
		}
	}
	s.wantMetric(t, 0, "sidecar_fallbacks_total", "dependency", "a")
	if d := s.api(t, "a"); d.Breaker.Window.Failures != all || d.Requests.Fallback != 0 {
		t.Errorf("the API shows %+v, want %d failures and no fallback", d, all)
	}
	if strings.Contains(s.output.text(), "goroutine ") {
		t.Errorf("a stack trace was logged:\n%s", s.output.tail(40))
	}
}

// What happened: a replayed copy and the failed live answer shared a writer,
// so the page came twice; lengths and connection headers came twice, too.
// Right: the body once and byte-equal, one Content-Length, no hop-by-hop
// header, an Age that counts, and a mark.
func TestE4_StaleBodyDoubled(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("0123456789abcde\n", 3<<20/16)
	bodies := map[string]string{"/small": "AB", "/large": large}
	hop := []string{"Connection: X-Hop, keep-alive", "X-Hop: 1", "Keep-Alive: timeout=5", "X-Kept: yes"}
	u := newUpstream(t, func(x *exchange) {
		if x.req.URL.Path == "/small" {
			x.respond(http.StatusOK, "AB", hop...)
			return
		}
		x.head(http.StatusOK, append(hop, "Transfer-Encoding: chunked")...)
		for rest := large; rest != ""; rest = rest[min(len(rest), 100_000):] {
			x.chunk(rest[:min(len(rest), 100_000)])
		}
		x.chunk("")
	})
	s := start(t, stale+`
cache: {max_object_bytes: 4MiB}
dependencies:
  - {name: a, listen: $A, upstream: "http://$U", timeout: 10s}
`, u)
	begun := time.Now()
	for path, body := range bodies {
		if r := s.get("A", path); r.body != body || r.err != nil {
			t.Fatalf("GET %s: %d bytes, %v", path, len(r.body), r.err)
		}
	}
	primed := time.Now()
	s.wantMetric(t, 2, "sidecar_cache_stores_total")
	u.refuse()
	for path, body := range bodies {
		for range 3 {
			least := int(time.Since(primed).Seconds())
			r := s.getRaw(t, "A", path)
			if r.status != http.StatusOK || r.body != body || r.err != nil {
				t.Errorf("the copy of %s: status %d, %d bytes, %v, want %d bytes", path, r.status, len(r.body), r.err, len(body))
			}
			if n := r.header["Content-Length"]; len(n) != 1 || n[0] != strconv.Itoa(len(body)) {
				t.Errorf("%s has Content-Length %q", path, n)
			}
			for _, name := range []string{"X-Hop", "Keep-Alive", "Transfer-Encoding"} {
				if v, found := r.header[name]; found {
					t.Errorf("%s has %s: %q", path, name, v)
				}
			}
			if v := r.header["Connection"]; len(v) != 1 || v[0] != "close" { // which the caller asked for
				t.Errorf("%s has Connection %q", path, v)
			}
			if age, err := strconv.Atoi(r.header.Get("Age")); err != nil || age < least {
				t.Errorf("%s has Age %q after %d s", path, r.header.Get("Age"), least)
			}
			if r.header.Get("Sidecar-Degraded") == "" || r.header.Get("X-Kept") != "yes" {
				t.Errorf("%s has the headers %v", path, r.header)
			}
		}
	}
	var r result
	if !poll(2*time.Second, func() bool {
		r = s.get("A", "/small")
		age, err := strconv.Atoi(r.header.Get("Age"))
		return err == nil && age >= 1
	}) || time.Since(begun) < time.Second {
		t.Errorf("Age is %q after %s", r.header.Get("Age"), time.Since(begun))
	}
}

// getRaw makes a GET call whose answer is taken apart line by line, so that
// nothing which comes twice is overlooked.
func (s *sidecar) getRaw(t *testing.T, port, path string, lines ...string) result {
	t.Helper()
	c := s.dial(t, port)
	c.send(t, "GET "+path+" HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n"+fields(lines...)+"\r\n")
	all, err := io.ReadAll(c.in)
	head, body, _ := strings.Cut(string(all), "\r\n\r\n")
	status, rest, _ := strings.Cut(head, "\r\n")
	r := result{header: http.Header{}, body: body, err: err}
	_, _ = fmt.Sscanf(status, "HTTP/1.1 %d", &r.status)
	for line := range strings.SplitSeq(rest, "\r\n") {
		name, value, _ := strings.Cut(line, ": ")
		r.header.Add(name, value)
	}
	return r
}
