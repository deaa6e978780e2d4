package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// message is a gRPC message with its prefix.
const message = "\x00\x00\x00\x00\x05hello"

// calling is a gRPC dependency behind a sidecar, and a client for it.
type calling struct {
	*sidecar
	v      *server
	client *http.Client
}

// grpcUp starts a sidecar with retries and fallbacks in front of a gRPC
// server.
func grpcUp(t *testing.T, keys string, handler http.HandlerFunc) *calling {
	t.Helper()
	v := newServer(t, "http1 h2c", nil, handler)
	s := start(t, base+`
dependencies:
  - name: a
    listen: $A
    upstream: http://`+v.addr+`
    retry: {max_retries: 2, backoff: {base: 1ms, max: 1ms}}
    fallback: [{stale: {max_age: 10m}}, {static: {body: FB}}]
    routes: [{match: {methods: [POST], path_prefix: /fb}, fallback: [{static: {body: FB}}]}]
`+keys)
	s.without(t, v)
	return &calling{s, v, s.speaker(t, "h2c")}
}

// reply is the end of a gRPC call: what the client sees.
type reply struct {
	status  int // HTTP's
	code    int // gRPC's; -1 without one
	message string
	body    string
	header  http.Header
	trailer http.Header
	err     error
	took    time.Duration
}

func (r reply) String() string {
	return fmt.Sprintf("HTTP %d, grpc-status %d %q, body %q, error %v, after %s", r.status, r.code, r.message, r.body, r.err, round(r.took))
}

// invoke makes a gRPC call with one message.
func (c *calling) invoke(t *testing.T, path string, lines ...string) reply {
	t.Helper()
	req := c.request(t, http.MethodPost, "A", path, strings.NewReader(message))
	req.Header.Set("Content-Type", "application/grpc+proto")
	req.Header.Set("Te", "trailers")
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Set(name, value)
	}
	began := time.Now()
	res, err := c.client.Do(req)
	if err != nil {
		return reply{code: -1, err: err, took: time.Since(began)}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	r := reply{status: res.StatusCode, code: -1, body: string(body), header: res.Header, trailer: res.Trailer, err: err, took: time.Since(began)}
	from := res.Trailer
	if res.Header.Get("Grpc-Status") != "" {
		from = res.Header
	}
	if n, err := strconv.Atoi(from.Get("Grpc-Status")); err == nil {
		r.code, r.message = n, from.Get("Grpc-Message")
	}
	return r
}

// says ends a call with a status, in trailers behind n messages.
func says(n, code int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/grpc")
		for range n {
			_, _ = io.WriteString(w, message)
			_ = http.NewResponseController(w).Flush()
		}
		prefix := ""
		if n > 0 {
			prefix = http.TrailerPrefix
		}
		w.Header().Set(prefix+"Grpc-Status", strconv.Itoa(code))
		w.Header().Set(prefix+"Grpc-Message", text)
		w.Header().Set(prefix+"X-Custom", "custom")
	}
}

// What happened: gRPC calls ended without their trailers, because these were
// copied from the wrong place, or a status of 0 in HTTP hid a failure.
// Right: every trailer arrives, whether the answer has messages or not; the
// breaker believes grpc-status.
func TestG6_Trailers(t *testing.T) {
	t.Parallel()
	c := grpcUp(t, "    breaker: {consecutive_failures: 100}\n", nil)
	failures := 0
	for i, w := range []struct {
		messages, code int
		fails          bool
	}{
		{1, 0, false}, {0, 0, false}, {3, 0, false}, {0, 5, false}, {1, 5, false}, {0, 14, true}, {2, 14, true}, {1, 4, true}, {0, 2, true}, {1, 13, true}, {0, 15, true},
		{1, 16, false}, {0, 8, false}, {0, 1, false},
	} {
		c.v.handle(says(w.messages, w.code, "so it is"))
		r := c.invoke(t, "/service/Method")
		if r.err != nil || r.status != http.StatusOK || r.code != w.code || r.message != "so it is" || r.body != strings.Repeat(message, w.messages) {
			t.Errorf("%+v: got %v", w, r)
		}
		custom := r.trailer.Get("X-Custom")
		if w.messages == 0 {
			custom = r.header.Get("X-Custom")
		}
		if custom != "custom" {
			t.Errorf("%+v: the header %v and the trailer %v hold no X-Custom", w, r.header, r.trailer)
		}
		if w.fails {
			failures++
		}
		var b state
		if !poll(patience, func() bool { b = c.api(t, "a"); return b.Breaker.Window.Calls == min(i+1, 20) }) || b.Breaker.Window.Failures != failures {
			t.Errorf("%+v: the breaker counted %+v, want %d failures", w, b.Breaker.Window, failures)
		}
	}
	if n, conns, _ := c.v.seen(); n != 14 || conns != 1 {
		t.Errorf("the upstream saw %d requests on %d connections, want 14 on 1: nothing is retried after an answer", n, conns)
	}
	c.wantMetric(t, float64(failures), "sidecar_attempts_total", "dependency", "a", "result", "status")
	c.wantOutcomes(t, "a", map[string]float64{"failed": float64(failures), "ok": 14 - float64(failures)})
}

// Right, too: an answer whose end is missing is a failure and looks like one.
func TestG6_NoStatusAtAll(t *testing.T) {
	t.Parallel()
	c := grpcUp(t, "", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		_, _ = io.WriteString(w, message)
		if r.URL.Path == "/breaks" {
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
	})
	if r := c.invoke(t, "/ends"); r.status != http.StatusOK || r.code != -1 || r.err != nil {
		t.Errorf("without a status: %v", r)
	}
	if r := c.invoke(t, "/breaks"); r.err == nil {
		t.Errorf("broken off: %v", r)
	}
	var b state
	if !poll(patience, func() bool { b = c.api(t, "a"); return b.Breaker.Window.Failures == 2 }) {
		t.Errorf("the breaker counted %+v, want two failures", b.Breaker.Window)
	}
}

// What happened: a caller's HTTP/1.1 connection hung when an answer had an
// empty body and a trailer that nobody had announced.
// Right: it ends, with its trailer.
func TestG6_UnannouncedTrailerBehindNothing(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(x *exchange) {
		x.head(http.StatusOK, "Content-Type: application/grpc", "Transfer-Encoding: chunked")
		x.write("0\r\nGrpc-Status: 14\r\nGrpc-Message: gone\r\n\r\n")
	})
	s := start(t, wrapped, u)
	c := s.dial(t, "A")
	for range 2 {
		c.send(t, "POST /x HTTP/1.1\r\nHost: a.test\r\nContent-Type: application/grpc\r\nContent-Length: 0\r\n\r\n")
		res, body := answered(t, c.in, http.MethodPost)
		if res.StatusCode != http.StatusOK || body != "" || res.Trailer.Get("Grpc-Status") != "14" || res.Trailer.Get("Grpc-Message") != "gone" {
			t.Errorf("got %s %q with the trailers %v", res.Status, body, res.Trailer)
		}
	}
	s.wantOutcomes(t, "a", map[string]float64{"failed": 2})
}

// What happened: gRPC clients got an HTTP error with a JSON body, which they
// report as "unknown".
// Right: the sidecar's own answers are gRPC's: HTTP 200, trailers only, a
// status that tells retryable from not, and a message; no static body.
func TestG6_OwnAnswers(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	c := grpcUp(t, "    bulkhead: {max_concurrent: 1, max_waiting: 0}\n    max_request_bytes: 20B\n", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/hold":
			select {
			case <-release:
			case <-r.Context().Done():
			}
		case "/hang":
			<-r.Context().Done()
		case "/reset":
			panic(http.ErrAbortHandler)
		}
		says(1, 0, "")(w, r)
	})
	own := func(what string, r reply, code int, reason string) {
		t.Helper()
		if r.status != http.StatusOK || r.code != code || r.body != "" || r.err != nil || r.header.Get("Content-Type") != "application/grpc" ||
			r.header.Get("Grpc-Status") == "" || !strings.HasPrefix(r.message, reason+": ") || !strings.Contains(r.header.Get("Proxy-Status"), `details="`+reason+`"`) {
			t.Errorf("%s: got %v with %v, want grpc-status %d for %s", what, r, r.header, code, reason)
		}
	}
	held := make(chan reply, 1)
	go func() { held <- c.invoke(t, "/hold") }()
	if !poll(patience, func() bool { return c.api(t, "a").Bulkhead.InUse == 1 }) {
		t.Fatal("the held call did not arrive")
	}
	own("full", c.invoke(t, "/fb"), 14, "queue_full")
	close(release)
	if r := <-held; r.code != 0 {
		t.Errorf("the held call: %v", r)
	}
	hanging := c.invoke(t, "/hang")
	own("attempt timeout", hanging, 4, "timeout")
	wantTook(t, "the attempt timeout", hanging.took, 500*time.Millisecond)
	own("reset", c.invoke(t, "/reset"), 14, "reset")
	tooLarge := c.request(t, http.MethodPost, "A", "/x", strings.NewReader(strings.Repeat(message, 3)))
	tooLarge.Header.Set("Content-Type", "application/grpc")
	if res, body := c.exchangeOver(t, c.client, tooLarge); res.StatusCode != http.StatusOK || res.Header.Get("Grpc-Status") != "8" || body != "" {
		t.Errorf("too large: got %s with %v", res.Status, res.Header)
	}
	c.force(t, "a", "open")
	refused := c.invoke(t, "/fb")
	own("open", refused, 14, "open")
	if refused.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After is %q", refused.header.Get("Retry-After"))
	}
	c.force(t, "a", "auto")
	c.force(t, "a", "closed")
	_ = c.v.http.Close()
	// The kept connection must be seen to have ended first.
	poll(patience, func() bool { return strings.HasPrefix(c.invoke(t, "/x").message, "connect: ") })
	own("refused", c.invoke(t, "/x"), 14, "connect")
}
