package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// What happened: a gauge was not brought down when a call was aborted, so it
// climbed for days, and aborted calls counted as successes.
// Right: within a second nothing is in use or waiting; every call counts once,
// under what became of it.
func TestJ2_GaugesDriftOnAborts(t *testing.T) {
	t.Parallel()
	const downloads, uploads, resets, waiters, upgrades = 60, 40, 20, 20, 10
	release := make(chan struct{})
	u := newUpstream(t, func(x *exchange) {
		switch {
		case x.req.Header.Get("Upgrade") != "":
			x.head(http.StatusSwitchingProtocols, "Connection: Upgrade", "Upgrade: echo")
			x.over = true
			if x.req.URL.Path == "/upstream-leaves" {
				x.until(release)
				return
			}
			_, _ = io.Copy(x.conn, x.in)
		case x.req.URL.Path == "/upload":
			_, _ = x.body()
		case x.req.URL.Path == "/held":
			x.until(release)
			x.respond(http.StatusOK, "ok")
		default:
			x.head(http.StatusOK, "Content-Length: 1000")
			x.write("begun")
			if x.req.URL.Path == "/reset" {
				x.delay(10 * time.Millisecond)
				x.reset()
				return
			}
			x.hang()
		}
	})
	s := start(t, base+`
dependencies:
  - {name: a, listen: $A, upstream: "http://$U", breaker: {consecutive_failures: 0}, bulkhead: {max_concurrent: 200}, timeout: 20s, attempt_timeout: 20s}
  - {name: b, listen: $B, upstream: "http://$U", bulkhead: {max_concurrent: 1, max_waiting: 20, queue_timeout: 15s}, timeout: 20s, attempt_timeout: 20s}
`, u)
	wantInUse := func(name string, inUse, waiting float64, within time.Duration) {
		t.Helper()
		var all scrape
		since := time.Now()
		if !poll(patience, func() bool {
			all = s.metrics(t)
			return all.sum(t, "sidecar_bulkhead_in_use", "dependency", name) == inUse && all.sum(t, "sidecar_bulkhead_waiting", "dependency", name) == waiting
		}) {
			t.Errorf("%s: in use %v, waiting %v, want %v and %v", name, all.sum(t, "sidecar_bulkhead_in_use", "dependency", name),
				all.sum(t, "sidecar_bulkhead_waiting", "dependency", name), inUse, waiting)
		}
		wantWithin(t, "giving back what "+name+" held", time.Since(since), within)
	}
	dial := func(n int, port, request string, answered bool) []*rawCaller {
		t.Helper()
		callers := make([]*rawCaller, n)
		for i := range callers {
			callers[i] = s.dial(t, port)
			callers[i].send(t, request)
		}
		for _, c := range callers {
			if answered {
				if _, err := http.ReadResponse(c.in, nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		return callers
	}
	const get = "GET %s HTTP/1.1\r\nHost: a.test\r\n\r\n"
	const upgrade = "GET %s HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"
	leaving := slices.Concat(
		dial(downloads, "A", fmt.Sprintf(get, "/download"), true),
		dial(uploads, "A", "POST /upload HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000\r\n\r\nbegun", false),
	)
	u.await(t, downloads+uploads)
	wantInUse("a", downloads+uploads, 0, patience)
	for i, c := range leaving {
		if i%2 == 0 {
			c.leave()
		} else {
			c.reset()
		}
	}
	wantInUse("a", 0, 0, time.Second)

	for _, c := range dial(resets, "A", fmt.Sprintf(get, "/reset"), false) {
		if r := c.response("GET"); r.err == nil {
			t.Errorf("an answer that was reset: %v, want an error", r)
		}
	}
	wantInUse("a", 0, 0, time.Second)
	if b := s.api(t, "a").Breaker.Window; b.Calls != resets || b.Failures != resets {
		t.Errorf("the breaker's window is %+v, want the %d resets alone", b, resets)
	}

	runner := dial(1, "B", fmt.Sprintf(get, "/held"), false)[0]
	wantInUse("b", 1, 0, patience)
	queue := dial(waiters, "B", fmt.Sprintf(get, "/never"), false)
	wantInUse("b", 1, waiters, patience)
	for _, c := range queue {
		c.leave()
	}
	wantInUse("b", 1, 0, time.Second)

	tunnels := dial(upgrades/2, "A", fmt.Sprintf(upgrade, "/caller-leaves"), true)
	left := dial(upgrades/2, "A", fmt.Sprintf(upgrade, "/upstream-leaves"), true)
	wantInUse("a", upgrades, 0, patience)
	for _, c := range tunnels {
		c.leave()
	}
	close(release)
	for _, c := range left {
		if n, err := c.in.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("a tunnel that the upstream left: %d bytes, %v, want its end", n, err)
		}
		c.leave()
	}
	if r := runner.response("GET"); r.status != http.StatusOK {
		t.Errorf("the call before the queue: %v", r)
	}
	wantInUse("a", 0, 0, time.Second)
	wantInUse("b", 0, 0, time.Second)

	s.wantOutcomes(t, "a", map[string]float64{"ok": upgrades, "failed": resets, "canceled": downloads + uploads})
	s.wantOutcomes(t, "b", map[string]float64{"ok": 1, "canceled": waiters})
	s.wantMetric(t, float64(u.requests()), "sidecar_attempts_total")
	for result, want := range map[string]float64{"success": upgrades + 1, "reset": resets, "canceled": downloads + uploads} {
		s.wantMetric(t, want, "sidecar_attempts_total", "result", result)
	}
	// Streams have no duration; every other call has one.
	s.wantMetric(t, downloads+uploads+resets, "sidecar_request_duration_seconds_count", "dependency", "a")
	s.wantMetric(t, 1+waiters, "sidecar_request_duration_seconds_count", "dependency", "b")
}

// wantOutcomes compares all of a dependency's calls by their outcomes, in
// metrics and API.
func (s *sidecar) wantOutcomes(t *testing.T, name string, want map[string]float64) {
	t.Helper()
	total := 0.0
	for _, outcome := range []string{"ok", "failed", "fallback", "rejected", "canceled"} {
		total += want[outcome]
		s.wantMetric(t, want[outcome], "sidecar_requests_total", "dependency", name, "outcome", outcome)
	}
	s.wantMetric(t, total, "sidecar_requests_total", "dependency", name)
	r := s.api(t, name).Requests
	if got := []int{r.OK, r.Failed, r.Fallback, r.Rejected, r.Canceled}; !slices.Equal(got, []int{
		int(want["ok"]), int(want["failed"]), int(want["fallback"]), int(want["rejected"]), int(want["canceled"]),
	}) {
		t.Errorf("%s: the API counts %+v, want %v", name, r, want)
	}
}

// What happened: paths, methods or hosts of callers became labels, and a
// scanner blew up the metrics store.
// Right: the series depend on the configuration alone, and memory stays flat.
func TestJ4_CardinalityBomb(t *testing.T) {
	t.Parallel()
	const paths, rare, statuses, callers = 5000, 500, 400, 8
	u := newUpstream(t, func(x *exchange) {
		var n int
		_, _ = fmt.Sscanf(x.req.URL.Path, "/p%d", &n)
		status := 200 + n%statuses
		if status == http.StatusNoContent || status == http.StatusNotModified {
			x.head(status)
			return
		}
		x.respond(status, "ok")
	})
	s := start(t, `
log: {level: error}
dependencies:
  - {name: a, listen: $A, upstream: "http://$U", breaker: {mode: "off"}, bulkhead: {max_concurrent: 20}}
`, u)
	series := func() int {
		t.Helper()
		text, err := s.ask(http.MethodGet, s.url("METRICS")+"/metrics", "")
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for line := range bytes.Lines(text) {
			if line[0] != '#' {
				n++
			}
		}
		return n
	}
	bomb := func(from, to int) {
		t.Helper()
		var wrong atomic.Int64
		var all sync.WaitGroup
		for i := range callers {
			c := s.dial(t, "A")
			all.Go(func() {
				for n := from + i; n < to; n += callers {
					method, host := http.MethodGet, "a.test"
					if n%(paths/rare) == 0 {
						method, host = fmt.Sprintf("M%d", n), fmt.Sprintf("h%d.test", n)
					}
					_, err := fmt.Fprintf(c.conn, "%s /p%d?q=%d HTTP/1.1\r\nHost: %s\r\nX-N: %d\r\n\r\n", method, n, n, host, n)
					if r := c.response(method); err != nil || r.err != nil || r.status != 200+n%statuses {
						wrong.Add(1)
					}
				}
			})
		}
		all.Wait()
		if n := wrong.Load(); n > 0 {
			t.Errorf("%d calls were not answered as the upstream did", n)
		}
	}
	resident := func() float64 { return s.metrics(t).sum(t, "process_resident_memory_bytes") }
	before := series()
	bomb(0, paths/5)
	some, memory := series(), resident()
	bomb(paths/5, paths)
	if all := series(); all != some || all-before > 100 {
		t.Errorf("%d series before, %d after %d calls, %d after %d", before, some, paths/5, all, paths)
	}
	// The race detector keeps a shadow of all memory that was ever touched.
	if now := resident(); slack == 0 && now > memory+16<<20 {
		t.Errorf("%.1f MiB resident after %d calls, %.1f MiB after %d", memory/(1<<20), paths/5, now/(1<<20), paths)
	}
	s.wantMetric(t, paths, "sidecar_requests_total", "dependency", "a")
	if n := u.requests(); n != paths {
		t.Errorf("the upstream saw %d requests, want %d", n, paths)
	}
}
