package e2e

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestReload_PortSwapUnderLoad: two dependencies change ports again and again;
// no call fails and no connection is closed.
func TestReload_PortSwapUnderLoad(t *testing.T) {
	t.Parallel()
	answer := func(body string) func(*exchange) { return func(x *exchange) { x.respond(http.StatusOK, body) } }
	one, two := newUpstream(t, answer("one")), newUpstream(t, answer("two"))
	config := func(first, second string) string {
		return fmt.Sprintf(`
defaults: {bulkhead: {max_concurrent: 300}, timeout: 30s, connect_timeout: 30s}
dependencies:
  - {name: one, listen: $%s, upstream: "http://$U1"}
  - {name: two, listen: $%s, upstream: "http://$U2"}
`, first, second)
	}
	s := start(t, config("A", "B"), one, two)
	ports := []string{"A", "B"}
	l := startLoad(100, time.Minute, func(i int) result { return s.get(ports[i%2], "/") })
	kept := s.dial(t, "A")
	for i := range 10 {
		ports := [][2]string{{"B", "A"}, {"A", "B"}}[i%2]
		s.reload(t, config(ports[0], ports[1]))
		for range 10 {
			kept.get(t, "/kept")
			if r, want := kept.response("GET"), []string{"two", "one"}[i%2]; r.body != want || r.err != nil {
				t.Fatalf("on the connection kept since before swap %d: %v, want %q", i+1, r, want)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	l.stop()
	all := l.wait()
	bad := only(all, func(r result) bool {
		return r.err != nil || r.status != http.StatusOK || r.body != "one" && r.body != "two"
	})
	if len(all) < 50 || len(bad) > 0 {
		t.Errorf("%d of %d calls failed: %v", len(bad), len(all), bad)
	}
	for port, want := range map[string]string{"A": "one", "B": "two"} {
		if r := s.get(port, "/"); r.body != want {
			t.Errorf("port %s at the end: %v, want %q", port, r, want)
		}
	}
}

// What happened: a reload with one port that could not be bound left some
// dependencies new and some old, and the corrected file was refused, too.
// Right: all or nothing, and the next file is applied as if nothing had been.
func TestH7_HalfAppliedReload(t *testing.T) {
	t.Parallel()
	slow := func(body string) func(*exchange) {
		return func(x *exchange) {
			if x.req.URL.Path != "/slow" || x.delay(700*time.Millisecond) {
				x.respond(http.StatusOK, body)
			}
		}
	}
	u, v, w := newUpstream(t, slow("u")), newUpstream(t, slow("v")), newUpstream(t, slow("w"))
	foreign, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Close()
	config := func(timeout, b, c, more string) string {
		return fmt.Sprintf(`
defaults: {breaker: {mode: "off"}}
dependencies:
  - {name: a, listen: $A, upstream: "http://$U1"%s}
  - {name: c, listen: %s, upstream: "http://$U3"}
`, timeout, c) + b + more
	}
	b := func(listen string) string {
		return "  - {name: b, listen: " + listen + ", upstream: \"http://$U2\"}\n"
	}
	s := start(t, config(", timeout: 200ms", b("$B"), "$C", ""), u, v, w)
	want := func(step string, slow int, bodies map[string]string) {
		t.Helper()
		if r := s.get("A", "/slow"); r.status != slow {
			t.Errorf("%s: a slow call of a: %v, want %d", step, r, slow)
		}
		for port, body := range bodies {
			var r result
			if !poll(2*time.Second, func() bool { r = s.get(port, "/"); return r.body == body }) { // a's timeout is short
				t.Errorf("%s: port %s: %v, want %q", step, port, r, body)
			}
		}
	}
	straight, swapped := map[string]string{"A": "u", "B": "v", "C": "w"}, map[string]string{"A": "u", "B": "w", "C": "v"}
	want("at first", http.StatusGatewayTimeout, straight)

	refusal := s.failReload(t, config(", timeout: 5s", b("$C"), "$B", "  - {name: d, listen: "+foreign.Addr().String()+", upstream: \"http://$U1\"}\n"))
	if !strings.Contains(refusal.Error, "dependency d") || !strings.Contains(refusal.Error, foreign.Addr().String()) {
		t.Errorf("the refusal does not name the port: %+v", refusal)
	}
	want("after the refused reload", http.StatusGatewayTimeout, straight)
	if n := countSeries(s.metrics(t), "d"); n != 0 {
		t.Errorf("the dependency that was refused has %d series", n)
	}

	s.reload(t, config(", timeout: 400ms", b("$C"), "$B", "  - {name: d, listen: $D, upstream: \"http://$U1\"}\n"))
	s.wantMetric(t, 1, "sidecar_config_last_reload_successful")
	want("after the corrected one", http.StatusGatewayTimeout, map[string]string{"A": "u", "B": "w", "C": "v", "D": "u"})

	s.reload(t, config("", b("$C"), "$B", ""))
	want("without the timeout key", http.StatusOK, swapped)
	if !poll(time.Second, func() bool { return refusesConnections(s.addresses["D"]) }) {
		t.Errorf("the port of the removed d still accepts")
	}

	s.reload(t, config("", "", "$B", ""))
	if !poll(time.Second, func() bool { return refusesConnections(s.addresses["C"]) }) {
		t.Errorf("the port of the removed b still accepts")
	}
	want("without b", http.StatusOK, map[string]string{"A": "u", "B": "w"})
}

// What happened: a dependency that was removed and added again made the
// registry panic, or vanished from the metrics.
// Right: every scrape is valid, the series come back each time, and those of
// the dependency beside it never fall.
func TestJ3_ReloadPanicsTheRegistry(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, ok)
	const without = base + `
dependencies:
  - {name: a, listen: $A, upstream: "http://$U"}
`
	const with = without + `
  - {name: b, listen: $B, upstream: "http://$U"}
`
	s := start(t, with, u)
	var fell atomic.Bool
	ends, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		last := 0.0
		for {
			select {
			case <-ends:
				ended <- nil
				return
			case <-time.After(10 * time.Millisecond):
			}
			all, err := s.tryMetrics()
			if err != nil {
				ended <- err
				return
			}
			for _, m := range all.find("sidecar_requests_total", "dependency", "a", "outcome", "ok") {
				if m.value < last {
					fell.Store(true)
				}
				last = m.value
			}
		}
	}()
	for i := range 10 {
		s.reload(t, without)
		s.reload(t, with)
		for _, port := range []string{"A", "B"} {
			if r := s.get(port, "/"); r.status != http.StatusOK {
				t.Fatalf("port %s after %d rounds: %v", port, i+1, r)
			}
		}
		if countSeries(s.metrics(t), "a") != countSeries(s.metrics(t), "b") {
			t.Fatalf("after %d rounds the dependency that came back has %d series, want %d", i+1, countSeries(s.metrics(t), "b"), countSeries(s.metrics(t), "a"))
		}
	}
	close(ends)
	if err := <-ended; err != nil {
		t.Errorf("a scrape during the reloads: %v", err)
	}
	if fell.Load() {
		t.Errorf("a counter of the dependency beside it fell")
	}
	s.wantMetric(t, 10, "sidecar_requests_total", "dependency", "a", "outcome", "ok")
	// Added again before it had drained, it counts on.
	if n := s.metrics(t).sum(t, "sidecar_requests_total", "dependency", "b", "outcome", "ok"); n < 1 || n > 10 {
		t.Errorf("the dependency that came back counts %v calls, want 1 to 10", n)
	}
}
