package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// eager retries whatever can be retried, at once and without a budget to
// speak of; its breaker refuses nothing.
const eager = `
defaults:
  breaker: {mode: "off"}
  bulkhead: {max_concurrent: 10, max_waiting: 10, queue_timeout: 500ms}
  attempt_timeout: 500ms
  timeout: 5s
  retry: {max_retries: 3, "on": [connect, reset, timeout, "500-599"], backoff: {base: 5ms, max: 5ms}, budget: {min_per_second: 1000}}
`

// heard is one request as a scripted upstream read it.
type heard struct {
	sum    [32]byte
	length int64 // Content-Length; -1 when chunked
}

// What happened: a failed attempt closed the request body that it shared with
// the next, which failed too.
// Right: an upstream that refuses at first gets the whole request, once, in
// its own framing; of a refused connection provably nothing was sent, so that
// holds for any method.
func TestD1_BodyDeadOnTheSecondTry(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var got []heard
	u := newUpstream(t, func(x *exchange) {
		body, err := x.body()
		if err != nil {
			return
		}
		mu.Lock()
		got = append(got, heard{sha256.Sum256(body), x.req.ContentLength})
		mu.Unlock()
		x.over = true // a kept connection would be another case: D4
		x.respond(http.StatusOK, "ok", "Connection: close")
	})
	s := start(t, eager+`
dependencies:
  - name: a
    listen: $A
    upstream: http://$U
    retry: {max_retries: 15, backoff: {base: 200ms, max: 200ms}}
`, u)
	body := []byte(strings.Repeat("0123456789abcdef", 4096)) // 64 KiB, max_body_bytes
	for i, tt := range []struct {
		method string
		body   io.Reader
		length int64
	}{
		{http.MethodPut, bytes.NewReader(body), int64(len(body))},
		{http.MethodPut, io.MultiReader(bytes.NewReader(body)), -1},
		{http.MethodPost, bytes.NewReader(body), int64(len(body))},
	} {
		u.refuse()
		done := make(chan result, 1)
		go func() { done <- s.do(context.Background(), tt.method, "A", "/x", tt.body) }()
		time.Sleep(300 * time.Millisecond)
		u.accept(t)
		if r := <-done; r.status != http.StatusOK || r.body != "ok" {
			t.Errorf("%s of length %d: %v", tt.method, tt.length, r)
		}
		mu.Lock()
		if want := (heard{sha256.Sum256(body), tt.length}); len(got) != i+1 || got[i] != want {
			t.Errorf("%s of length %d: the upstream read %d requests, the last of length %d", tt.method, tt.length, len(got), got[len(got)-1].length)
		}
		mu.Unlock()
	}
	if n := u.requests(); n != 3 {
		t.Errorf("%d requests reached the upstream, want 3", n)
	}
}

// What happened: a payment ran three times, because the connection ended after
// the upstream had read it.
// Right: what may have been acted on is sent again only where its method, or
// its sender with an Idempotency-Key, says that this is safe. The caller gets
// the upstream's own answer, and the denial is counted.
func TestD2_PostExecutedSeveralTimes(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(x *exchange) {
		if _, err := x.body(); err != nil {
			return
		}
		switch x.req.URL.Path {
		case "/closes":
			x.close()
		case "/resets":
			x.reset()
		case "/half":
			x.write("HTTP/1.1 200 OK\r\nContent-")
			x.close()
		case "/hangs":
			x.hang()
		case "/fails":
			x.respond(http.StatusServiceUnavailable, "own answer", "X-Own: yes")
		}
	})
	s := start(t, eager+`
dependencies:
  - name: a
    listen: $A
    upstream: http://$U
    attempt_timeout: 3s
    routes: [{match: {path: /hangs}, attempt_timeout: 200ms}]
`, u)
	key := "Idempotency-Key: 1"
	denied := 0.0
	for path, status := range map[string]int{"/closes": 502, "/resets": 502, "/half": 502, "/hangs": 504, "/fails": 503} {
		for _, tt := range []struct {
			method string
			lines  []string
			times  int
		}{
			{"POST", nil, 1}, {"PATCH", nil, 1}, {"QUERY", nil, 1},
			{"GET", nil, 4}, {"PUT", nil, 4}, {"DELETE", nil, 4}, {"POST", []string{key}, 4}, {"PATCH", []string{key}, 4},
		} {
			if tt.times == 1 {
				denied++
			}
			for _, body := range []string{"", "charge"} {
				if body == "" && tt.method == "PUT" || body != "" && tt.method == "GET" {
					continue
				}
				if body == "" && tt.times == 1 {
					denied++
				}
				seen := u.requests()
				r := s.do(t.Context(), tt.method, "A", path, strings.NewReader(body), tt.lines...)
				if r.status != status || r.err != nil || path == "/fails" && (r.body != "own answer" || r.header.Get("X-Own") != "yes") {
					t.Errorf("%s %s: %v, want %d", tt.method, path, r, status)
				}
				if n := u.requests() - seen; n != tt.times {
					t.Errorf("%s %s with %q and body %q reached the upstream %d times, want %d", tt.method, path, tt.lines, body, n, tt.times)
				}
			}
		}
	}
	s.wantMetric(t, denied, "sidecar_retries_denied_total", "dependency", "a", "reason", "method")
	s.wantMetric(t, float64(u.requests()), "sidecar_attempts_total", "dependency", "a")
}

// What happened: whole uploads were kept for a retry that never came, and
// memory ran out.
// Right: what is larger than max_body_bytes streams through, is not sent
// again, and gets the upstream's own answer. The skip is counted.
func TestD5_ReplayBufferEatsMemory(t *testing.T) {
	t.Parallel()
	const uploads, most = 5, 32 << 20
	size := int64(200 << 20)
	if slack > 0 { // a race build is several times slower
		size = 40 << 20
	}
	began := make(chan struct{}, uploads)
	u := newUpstream(t, func(x *exchange) {
		if x.req.Method == http.MethodGet {
			ok(x)
			return
		}
		if _, err := io.ReadFull(x.req.Body, make([]byte, 1)); err != nil {
			return
		}
		began <- struct{}{}
		n, err := io.Copy(io.Discard, x.req.Body)
		if err == nil {
			x.respond(http.StatusServiceUnavailable, fmt.Sprint(n+1))
		}
	})
	s := start(t, eager+`
dependencies:
  - {name: a, listen: $A, upstream: http://$U, timeout: 60s, attempt_timeout: 60s, fallback: [{stale: {max_age: 10m}}]}
`, u)
	s.get("A", "/") // what a first call needs is not an upload's
	before := s.metrics(t).sum(t, "process_resident_memory_bytes")
	peak := before
	for range uploads {
		body, upload := io.Pipe()
		done := make(chan result, 1)
		go func() { done <- s.do(t.Context(), http.MethodPut, "A", "/upload", body) }()
		part := make([]byte, 1<<20)
		for sent := int64(0); sent < size; sent += int64(len(part)) {
			if _, err := upload.Write(part); err != nil {
				t.Fatalf("after %d bytes: %v, %v", sent, err, <-done)
			}
			if sent == 0 {
				<-began // its first bytes are there before its last are sent
			}
			if sent%(32<<20) == 0 {
				peak = max(peak, s.metrics(t).sum(t, "process_resident_memory_bytes"))
			}
		}
		_ = upload.Close()
		if r := <-done; r.status != http.StatusServiceUnavailable || r.body != fmt.Sprint(size) {
			t.Errorf("an upload of %d: %v", size, r)
		}
	}
	if n := u.requests(); n != uploads+1 {
		t.Errorf("%d requests reached the upstream, want %d", n, uploads+1)
	}
	s.wantMetric(t, uploads, "sidecar_retries_denied_total", "dependency", "a", "reason", "body")
	if grown := peak - before; grown > most && slack == 0 {
		t.Errorf("resident memory grew by %.0f MiB, want at most %d", grown/(1<<20), most>>20)
	}
}

// What happened: headers of a failed attempt went out with the next one's
// answer: a cookie, or a length that made the caller wait for ever.
// Right: the answer is the last attempt's, or the fallback's, alone.
func TestD10_HeadersOfAFailedTry(t *testing.T) {
	t.Parallel()
	bad := []string{"X-Bad: yes", "Set-Cookie: bad=1", "ETag: \"bad\"", "Retry-After: 0", "Content-Encoding: gzip", "Content-Type: x/bad"}
	u := newUpstream(t, func(x *exchange) {
		switch {
		case x.req.Header.Get("X-Try") == "" || x.n%2 == 0:
			x.respond(http.StatusOK, "hello", "X-Good: yes")
		case x.req.URL.Path == "/empty":
			x.head(http.StatusServiceUnavailable, append(bad, "Content-Length: 0")...)
		case x.req.URL.Path == "/length":
			x.respond(http.StatusServiceUnavailable, strings.Repeat("bad", 100), bad...)
		case x.req.URL.Path == "/chunked":
			x.head(http.StatusServiceUnavailable, append(bad, "Transfer-Encoding: chunked", "Trailer: X-Bad-Trailer")...)
			x.write("3\r\nbad\r\n0\r\nX-Bad-Trailer: bad\r\n\r\n")
		case x.req.URL.Path == "/hangs":
			x.head(http.StatusServiceUnavailable, append(bad, "Content-Length: 100")...)
			x.hang()
		}
	})
	s := start(t, eager+`
dependencies:
  - {name: a, listen: $A, upstream: http://$U, timeout: 2s}
  - {name: b, listen: $B, upstream: http://$U, timeout: 2s, retry: {max_retries: 0}, fallback: [{static: {body: hello}}]}
`, u)
	paths := []string{"/empty", "/length", "/chunked", "/hangs"}
	for _, port := range []string{"A", "B"} {
		c := s.dial(t, port)
		for _, path := range paths {
			if u.requests()%2 == 1 {
				s.get("A", "/") // so that the next request is an odd one, which fails
			}
			c.get(t, path, "X-Try: 1")
			r := c.response(http.MethodGet)
			if r.err != nil || r.status != http.StatusOK || r.body != "hello" || r.header.Get("Content-Length") != "5" {
				t.Fatalf("%s%s: %v, %v", port, path, r, r.header)
			}
			for _, line := range append(bad, "Trailer: x", "Transfer-Encoding: x") {
				name, _, _ := strings.Cut(line, ":")
				if v := r.header.Get(name); strings.Contains(v, "bad") || v != "" && (port != "B" || name != "Content-Type") {
					t.Errorf("%s%s: %s: %s is the failed attempt's", port, path, name, v)
				}
			}
			if good := r.header.Get("X-Good"); (good == "yes") != (port == "A") {
				t.Errorf("%s%s: X-Good is %q", port, path, good)
			}
			c.get(t, "/")
			if r := c.response(http.MethodGet); r.err != nil || r.body != "hello" || r.header.Get("X-Good") != "yes" {
				t.Fatalf("%s%s: the next answer on the connection: %v, %v", port, path, r, r.header)
			}
		}
	}
}
