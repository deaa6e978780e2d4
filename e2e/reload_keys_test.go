package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sidecar/config"
)

// processChange is what a reload of one key of the process does: what is asked
// answers one thing before and another after.
type processChange struct {
	before, after string // a line of the file
	ask           func(*testing.T, *sidecar) string
	was, becomes  string
}

var processChanges = map[string]processChange{
	"admin.listen":   {"admin: {listen: $ADMIN}", "admin: {listen: $ADMIN2}", listening("ADMIN"), "200 0", "0 200"},
	"metrics.listen": {"metrics: {listen: $METRICS}", "metrics: {listen: $METRICS2}", listening("METRICS"), "200 0", "0 200"},
	"admin.pprof": {"admin: {listen: $ADMIN}", "admin: {listen: $ADMIN, pprof: true}", func(_ *testing.T, s *sidecar) string {
		return fmt.Sprint(s.get("ADMIN", "/debug/pprof/cmdline").status)
	}, "404", "200"},
	"admin.drills": {"admin: {listen: $ADMIN}", "admin: {listen: $ADMIN, drills: true}", func(t *testing.T, s *sidecar) string {
		order := strings.NewReader(`{"refuse":true,"for":"1ms"}`)
		return fmt.Sprint(s.do(t.Context(), http.MethodPost, "ADMIN", "/api/dependencies/a/drill", order).status)
	}, "403", "200"},
	"log.level":           {"log: {level: warn, access: all}", "log: {level: error, access: all}", logged("/fails"), "json", "nothing"},
	"log.access":          {"log: {access: degraded}", "log: {access: all}", logged("/"), "nothing", "json"},
	"log.format":          {"log: {format: json, access: all}", "log: {format: console, access: all}", logged("/"), "json", "console"},
	"log.report_interval": {"log: {report_interval: 0s}", "log: {report_interval: 20ms}", reports, "none", "some"},
	"shutdown.drain_timeout": {"shutdown: {drain_timeout: 25s}", "shutdown: {drain_timeout: 400ms}", func(_ *testing.T, s *sidecar) string {
		text, _ := s.ask(http.MethodGet, s.url("ADMIN")+"/api/config", "")
		return fmt.Sprint(strings.Contains(string(text), "drain_timeout: 400ms\n"))
	}, "false", "true"},
	"limits.max_concurrent": {"limits: {max_concurrent: 200}", "limits: {max_concurrent: 20}", func(t *testing.T, s *sidecar) string {
		limit := "200"
		if text, _ := s.ask(http.MethodGet, s.url("ADMIN")+"/api/config", ""); strings.Contains(string(text), "limits:\n  max_concurrent: 20\n") {
			limit = "20"
		}
		s.write(t, processKeys("limits: {max_concurrent: "+limit+"}")+"  - {name: more, listen: $MORE, upstream: \"http://$U\", bulkhead: {max_concurrent: 30}}\n")
		return fmt.Sprint(s.do(t.Context(), http.MethodPost, "ADMIN", "/api/reload", nil).status)
	}, "200", "422"},
	"cache.max_bytes":        {"cache: {max_bytes: 64MiB, max_object_bytes: 50KiB}", "cache: {max_bytes: 50KiB, max_object_bytes: 50KiB}", stored, "20 of 20", "at most 5 of 20"},
	"cache.max_object_bytes": {"cache: {max_object_bytes: 1MiB}", "cache: {max_object_bytes: 1KiB}", stored, "20 of 20", "at most 5 of 20"},
	"cache.dir":              {"cache: {dir: copies}", "cache: {dir: \"\"}", writesCopies, "files", "no files"},
}

// processKeys is a configuration with a line of its own.
func processKeys(line string) string {
	return line + base + `
dependencies:
  - {name: a, listen: $A, upstream: "http://$U", timeout: 9s, attempt_timeout: 9s, bulkhead: {max_concurrent: 5}, fallback: [{stale: {max_age: 10m}}]}
  - {name: sick, listen: $SICK, upstream: "http://$U", breaker: {cooldown: 1h}, bulkhead: {max_concurrent: 5}}
`
}

// listening tells what a listener answers at its old and its new address; 0
// where there is none. The harness goes on with the new one.
func listening(name string) func(*testing.T, *sidecar) string {
	return func(t *testing.T, s *sidecar) string {
		first, second := s.addresses[name], s.addresses[name+"2"]
		health := func(address string) (status int) {
			poll(time.Second, func() bool {
				status = 0
				if res, err := s.scraper.Get("http://" + address + "/livez"); address != "" && err == nil {
					status = res.StatusCode
					res.Body.Close()
				}
				return status == 0
			})
			return status
		}
		said := fmt.Sprint(health(first), " ", health(second))
		if second != "" {
			s.addresses[name] = second
		}
		return said
	}
}

// logged tells how a call is logged.
func logged(path string) func(*testing.T, *sidecar) string {
	return func(_ *testing.T, s *sidecar) string {
		before := len(s.output.text())
		s.get("A", path)
		said := "nothing"
		poll(300*time.Millisecond, func() bool {
			for line := range strings.Lines(s.output.text()[before:]) {
				switch {
				case strings.Contains(line, `"msg":"call"`):
					said = "json"
				case strings.Contains(line, "  call  {"):
					said = "console"
				}
			}
			return said != "nothing"
		})
		return said
	}
}

// reports tells whether there are lines of a report.
func reports(_ *testing.T, s *sidecar) string {
	before := len(s.logs("msg", "report"))
	if poll(300*time.Millisecond, func() bool { return len(s.logs("msg", "report")) > before }) {
		return "some"
	}
	return "none"
}

// pages numbers what stored asks for.
var pages atomic.Int64

// stored tells how many of 20 answers of 10 KiB are kept.
func stored(t *testing.T, s *sidecar) string {
	before := s.metrics(t).sum(t, "sidecar_cache_entries")
	for range 20 {
		if r := s.get("A", fmt.Sprint("/page/", pages.Add(1))); r.status != http.StatusOK {
			t.Fatal(r)
		}
	}
	var now float64
	poll(time.Second, func() bool { now = s.metrics(t).sum(t, "sidecar_cache_entries"); return now-before == 20 })
	if kept := now - before; kept > 5 {
		return fmt.Sprintf("%v of 20", kept)
	}
	return "at most 5 of 20"
}

// writesCopies tells whether copies are written beside the configuration.
func writesCopies(t *testing.T, s *sidecar) string {
	stored(t, s)
	said := "no files"
	poll(3*time.Second, func() bool {
		if files, _ := filepath.Glob(filepath.Join(filepath.Dir(s.path), "copies", "*.copy")); len(files) > 0 {
			said = "files"
		}
		return said == "files"
	})
	return said
}

// TestReload_ProcessKeys: every key of the process takes hold at a reload, and
// nothing else changes: the open circuit keeps its expiry, the call in flight
// ends with its answer, no counter falls. A key without a case fails.
func TestReload_ProcessKeys(t *testing.T) {
	t.Parallel()
	var known []string
	for _, k := range config.ProcessKeys() {
		known = append(known, k.Name)
		t.Run(k.Name, func(t *testing.T) {
			c, ok := processChanges[k.Name]
			if !ok {
				t.Fatalf("no case shows what a reload of %s does; add one", k.Name)
			}
			t.Parallel()
			changeProcess(t, c)
		})
	}
	for name := range processChanges {
		if !slices.Contains(known, name) {
			t.Errorf("there is no key %s", name)
		}
	}
}

func changeProcess(t *testing.T, c processChange) {
	release := make(chan struct{})
	page := strings.Repeat("x", 10<<10)
	u := newUpstream(t, func(x *exchange) {
		switch {
		case x.req.URL.Path == "/fails":
			x.respond(http.StatusInternalServerError, "no")
		case x.req.URL.Path == "/held" && x.until(release):
			x.respond(http.StatusOK, "held")
		case strings.HasPrefix(x.req.URL.Path, "/page/"):
			x.respond(http.StatusOK, page, "Cache-Control: max-age=60")
		default:
			x.respond(http.StatusOK, "ok", "Cache-Control: no-store")
		}
	})
	s := start(t, processKeys(c.before), u)
	for range 3 {
		s.get("SICK", "/fails")
	}
	open := s.api(t, "sick").Breaker
	if got := c.ask(t, s); got != c.was {
		t.Errorf("before it says %q, want %q", got, c.was)
	}
	held := make(chan result, 1)
	asked := u.requests()
	go func() { held <- s.get("A", "/held") }()
	u.await(t, asked+1)
	calls := s.metrics(t).sum(t, "sidecar_requests_total")

	s.reload(t, processKeys(c.after))

	if got := c.ask(t, s); got != c.becomes {
		t.Errorf("after it says %q, want %q", got, c.becomes)
	}
	if b := s.api(t, "sick").Breaker; b.State != "open" || !b.OpenUntil.Equal(*open.OpenUntil) || b.OpenedTotal != 1 {
		t.Errorf("the open circuit became %+v, was %+v", b, open)
	}
	if now := s.metrics(t).sum(t, "sidecar_requests_total"); now < calls {
		t.Errorf("%v calls are counted, %v were", now, calls)
	}
	close(release)
	if r := <-held; r.status != http.StatusOK || r.body != "held" {
		t.Errorf("the call in flight: %v", r)
	}
}

// TestReload_DrainTimeout: how long the drain may take is what the file in force
// says when it begins.
func TestReload_DrainTimeout(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, hang)
	s := start(t, processKeys("shutdown: {drain_timeout: 20s}"), u)
	s.hold(t, u, "A")
	s.reload(t, processKeys("shutdown: {drain_timeout: 400ms}"))
	told := time.Now()
	s.signal(t, syscall.SIGTERM)
	s.wantExit(t, told, 400*time.Millisecond, 900*time.Millisecond)
}
