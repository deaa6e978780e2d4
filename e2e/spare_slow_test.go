package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// What happened: the life of a stream went into the latency histogram, whose
// quantiles then said that the dependency was slow.
// Right: event streams and upgrades count as calls, not in the histogram.
func TestSpareStreamsAreNoLatency(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(x *exchange) {
		switch x.req.URL.Path {
		case "/events":
			x.head(http.StatusOK, "Content-Type: text/event-stream", "Transfer-Encoding: chunked")
			for range 5 {
				x.chunk("data: x\n\n")
				x.delay(200 * time.Millisecond)
			}
			x.chunk("")
		case "/upgrade":
			x.head(http.StatusSwitchingProtocols, "Connection: Upgrade", "Upgrade: echo")
			x.delay(time.Second)
			x.close()
		default:
			x.respond(http.StatusOK, "ok")
		}
	})
	s := start(t, one, u)
	if r := s.get("A", "/"); r.status != http.StatusOK {
		t.Error(r)
	}
	if r := s.get("A", "/events"); r.err != nil || strings.Count(r.body, "data") != 5 {
		t.Error(r)
	}
	c := s.dial(t, "A")
	c.send(t, "GET /upgrade HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	if _, err := io.Copy(io.Discard, c.in); err != nil {
		t.Error(err)
	}
	c.leave()
	s.wantMetric(t, 3, "sidecar_requests_total", "dependency", "a")
	s.wantMetric(t, 3, "sidecar_requests_total", "dependency", "a", "outcome", "ok")
	s.wantMetric(t, 1, "sidecar_request_duration_seconds_count", "dependency", "a")
	if sum := s.metrics(t).sum(t, "sidecar_request_duration_seconds_sum", "dependency", "a"); sum > 0.5 {
		t.Errorf("one short call took %v s in all", sum)
	}
}

// What happened: request headers that came a byte at a time held connections
// and goroutines for as long as their sender liked.
// Right: the connection is closed after some 10 s, and nothing is left of it.
func TestSpareTrickledRequestHeaders(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, ok)
	s := start(t, one, u)
	const callers = 5
	results := together(callers, func(i int) result {
		conn, err := net.Dial("tcp", s.addresses["A"])
		if err != nil {
			return result{err: err}
		}
		defer conn.Close()
		begin := time.Now()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = conn.SetReadDeadline(begin.Add(3 * patience))
			_, _ = io.Copy(io.Discard, conn)
		}()
		if i == 0 { // behind a whole request on the same connection
			_, _ = io.WriteString(conn, "GET /first HTTP/1.1\r\nHost: a.test\r\n\r\n")
		}
		text := "GET /trickled HTTP/1.1\r\nHost: a.test\r\nX-Long: " + strings.Repeat("x", 100)
		for _, b := range []byte(text) {
			if _, err := conn.Write([]byte{b}); err != nil {
				break
			}
			select {
			case <-ended:
				return result{took: time.Since(begin)}
			case <-time.After(time.Second):
			}
		}
		<-ended
		return result{took: time.Since(begin)}
	})
	for i, r := range results {
		least := 9 * time.Second // a shorter bound would cut slow callers off
		if r.err != nil || r.took < least || r.took > 15*time.Second+noise(time.Now().Add(-r.took)) {
			t.Errorf("connection %d was closed after %s (%v), want some 10 s", i, round(r.took), r.err)
		}
	}
	if n := u.requests(); n != 1 {
		t.Errorf("%d requests reached the upstream, want the one that was whole", n)
	}
	u.refuse()
	s.checkLeaks(t)
}

// What happened: response headers that came a byte at a time held a call past
// its timeout, since each byte looked like progress.
// Right: attempt_timeout bounds the headers as a whole; the connection ends.
func TestSpareTrickledResponseHeaders(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(x *exchange) {
		for _, b := range []byte("HTTP/1.1 200 OK\r\nX-Long: " + strings.Repeat("x", 1000)) {
			if !x.delay(50*time.Millisecond) || !x.write(string([]byte{b})) {
				return
			}
		}
	})
	s := start(t, one+"    retry: {max_retries: 1}\n", u)
	r := s.get("A", "/")
	if r.status != http.StatusGatewayTimeout || r.reason() != "timeout" {
		t.Errorf("trickled response headers: %v", r)
	}
	if r.took > 1100*time.Millisecond+noise(r.sent) {
		t.Errorf("two attempts of 500 ms each took %s", r.took)
	}
	for n := range u.requests() {
		if x := u.exchange(t, n+1); !poll(time.Second, func() bool { return !x.goneAt().IsZero() }) {
			t.Errorf("the connection of attempt %d is still there", n+1)
		}
	}
	s.wantMetric(t, 2, "sidecar_attempts_total", "dependency", "a", "result", "timeout")
}

// What happened: HTTP_PROXY, set for something else in the pod, took over the
// dependency's traffic.
// Right: a dependency is reached at its own address and no other way. (Go
// itself never asks a proxy for a loopback address, so that the upstream's is
// written as one that is none.)
func TestSpareEnvironmentProxy(t *testing.T) {
	proxy := newUpstream(t, func(x *exchange) { x.respond(http.StatusOK, "the proxy's") })
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
		for _, name := range []string{name, strings.ToLower(name)} {
			t.Setenv(name, "http://"+proxy.addr)
		}
	}
	t.Setenv("NO_PROXY", "")
	t.Setenv("no_proxy", "")
	u := newUpstream(t, func(x *exchange) { x.respond(http.StatusOK, "the upstream's") })
	_, port, err := net.SplitHostPort(u.addr)
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, base+fmt.Sprintf(`
dependencies:
  - {name: plain, listen: $PLAIN, upstream: "http://0.0.0.0:%s"}
  - {name: nowhere, listen: $NOWHERE, upstream: "http://upstream.invalid:%s"}
  - {name: secure, listen: $SECURE, upstream: "https://upstream.invalid:%s"}
`, port, port, port), u)
	if r := s.get("PLAIN", "/"); r.status != http.StatusOK || r.body != "the upstream's" {
		t.Errorf("an upstream that is there: %v", r)
	}
	for _, port := range []string{"NOWHERE", "SECURE"} {
		if r := s.get(port, "/"); r.status != http.StatusBadGateway && r.status != http.StatusGatewayTimeout {
			t.Errorf("%s: an upstream that does not exist: %v", port, r)
		}
	}
	if accepted, _ := proxy.connections(); accepted != 0 {
		t.Errorf("the proxy of the environment got %d connections", accepted)
	}
}
