package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What happened: the configuration library wrote all keys in lower case and
// split them at dots, so names and headers were silently altered.
// Right: names, header names and paths stay exactly as written, everywhere.
func TestH4_KeysKeepTheirCaseAndDots(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, ok)
	s := start(t, base+`
dependencies:
  - name: Payments.V2
    listen: $A
    upstream: http://$U/Base.Path
    fallback: [{static: {headers: {X-Reason.Code: Down, x-lower: Kept, X-UPPER: "1.50"}, body: FB}}]
    routes:
      - match: {path: /Case.Path}
        fallback: []
`, u)
	if r := s.get("A", "/x"); r.status != http.StatusOK {
		t.Fatal(r)
	}
	if path := u.exchange(t, 1).req.URL.Path; path != "/Base.Path/x" {
		t.Errorf("the upstream saw the path %q", path)
	}
	s.wantMetric(t, 1, "sidecar_requests_total", "dependency", "Payments.V2", "outcome", "ok")
	if d := s.api(t, "Payments.V2"); d.Name != "Payments.V2" || d.Requests.OK != 1 {
		t.Errorf("the API shows %+v", d)
	}
	if n := len(s.logs("msg", "call", "dependency", "Payments.V2")); n != 1 {
		t.Errorf("%d calls logged", n)
	}
	page := s.do(context.Background(), http.MethodGet, "ADMIN", "/", nil)
	if !strings.Contains(page.body, ">Payments.V2<") {
		t.Errorf("the page does not show the name:\n%s", page.body)
	}
	s.force(t, "Payments.V2", "open")
	c := s.dial(t, "A")
	c.get(t, "/x", "Connection: close")
	raw, err := io.ReadAll(c.in)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"X-Reason.Code: Down", "x-lower: Kept", "X-UPPER: 1.50"} {
		if !strings.Contains(string(raw), "\r\n"+line+"\r\n") {
			t.Errorf("the fallback lacks the line %q:\n%s", line, raw)
		}
	}
	for path, status := range map[string]int{"/Case.Path": http.StatusServiceUnavailable, "/case.path": http.StatusOK} {
		if r := s.get("A", path); r.status != status {
			t.Errorf("%s: %v, want %d", path, r, status)
		}
	}
	// Two names that differ in case alone are rejected loudly.
	twice := fmt.Sprintf("dependencies:\n  - {name: pay, listen: %s, upstream: http://a.test}\n  - {name: Pay, listen: %s, upstream: http://b.test}\n", freeAddress(t), freeAddress(t))
	if r := runCommand(t, []string{"run", "-c", file(t, "case.yaml", twice)}); r.code != 1 || !strings.Contains(r.err, `"Pay"`) || !strings.Contains(r.err, `"pay"`) {
		t.Errorf("two names that differ in case: %+v", r)
	}
}

// slips are typos, and values without a unit or out of range.
var slips = []struct{ text, key string }{
	{"timout: 1s", "timout"},
	{"timeout: 500", "timeout"},
	{"timeout: -1s", "timeout"},
	{"timeout: 0", "timeout"},
	{"bulkhead: {max_concurrent: 0}", "bulkhead.max_concurrent"},
	{"bulkhead: {max_conurrent: 5}", "bulkhead.max_conurrent"},
	{"breaker: {cooldown: 10 s}", "breaker.cooldown"},
	{"breaker: {cooldown: 10S}", "breaker.cooldown"},
	{"breaker: {failure_ratio: 50}", "breaker.failure_ratio"},
	{"listen: 127.0.0.1:70000", "listen"},
	{"timeout: 1s, timeout: 2s", "timeout"},
	{"retry: {max_body_bytes: 64}", "retry.max_body_bytes"},
	{"retry: {max_retries: many}", "retry.max_retries"},
	{"fallback: [{stale: {max_age: 600}}]", "fallback[0].stale.max_age"},
	{"fallback: [{static: {status: 99}}]", "fallback[0].static.status"},
}

// slipped returns a configuration of dependency a with a slip in it.
func slipped(listen, upstream, slip string) string {
	if !strings.HasPrefix(slip, "listen:") {
		slip += ", listen: " + listen
	}
	return "dependencies:\n  - {name: a, upstream: \"http://" + upstream + "\", " + slip + "}\n"
}

// What happened: misspelt keys were ignored, and numbers without a unit read
// as nanoseconds.
// Right: the process does not start and names file, line and key.
func TestH5_SlipsAreRefusedAtStart(t *testing.T) {
	t.Parallel()
	for i, c := range slips {
		path := file(t, fmt.Sprintf("slip-%d.yaml", i), slipped(freeAddress(t), "a.test", c.text))
		args := [][]string{{"run", "-c", path}, {"-c", path}}[i%2] // "run" is the default
		if r := runCommand(t, args); r.code != 1 || !strings.HasPrefix(r.err, path+":2: dependencies[0]."+c.key+": ") {
			t.Errorf("%s: %+v, want exit code 1 and %s:2: dependencies[0].%s", c.text, r, path, c.key)
		}
	}
	for what, text := range map[string]string{
		"an empty file": "", "a comment alone": "# nothing\n", "no mapping": "- a\n", "broken YAML": "dependencies: [\n",
		"a second document": "dependencies: []\n---\nlog: {level: debug}\n", "an unknown key": "dependency: []\n",
	} {
		path := file(t, "whole.yaml", text)
		if r := runCommand(t, []string{"run", "-c", path}); r.code != 1 || !strings.HasPrefix(r.err, path+":") {
			t.Errorf("%s: %+v, want exit code 1 and the file's name", what, r)
		}
	}
	if r := runCommand(t, []string{"run", "-c", file(t, "good.yaml", slipped(freeAddress(t), "a.test", "timeout: 1s"))}, "SIDECAR_LOG_LEVEL=loud"); r.code != 1 || !strings.Contains(r.err, "log.level") {
		t.Errorf("a bad variable: %+v", r)
	}
}

// Right, too: a reload of such a file is refused, by whichever way it was
// asked for, and the old configuration goes on serving: never 500 ns.
func TestH5_SlipsAreRefusedAtReload(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(x *exchange) {
		if x.delay(30 * time.Millisecond) {
			x.respond(http.StatusOK, "ok")
		}
	})
	s := start(t, slipped("$A", "$U", "timeout: 5s"), u)
	reloads := func(result string) float64 {
		return s.metrics(t).sum(t, "sidecar_config_reloads_total", "result", result)
	}
	failures := 0
	for i, c := range slips {
		bad := slipped("$A", "$U", c.text)
		key := "dependencies[0]." + c.key
		if i%2 == 0 {
			p := s.failReload(t, bad)
			if len(p.Faults) != 1 || p.Faults[0].File != s.path || p.Faults[0].Key != key || p.Faults[0].Line < 2 || p.Faults[0].Message == "" {
				t.Errorf("%s: the answer holds the faults %+v, want one of %s", c.text, p.Faults, key)
			}
			if !strings.Contains(p.Error, key) || !strings.Contains(p.Error, s.path) {
				t.Errorf("%s: the answer says %q", c.text, p.Error)
			}
		} else {
			before := reloads("failure")
			s.write(t, bad)
			s.signal(t, syscall.SIGHUP)
			if !poll(patience, func() bool { return reloads("failure") > before }) {
				t.Fatalf("%s: the reload by SIGHUP was not refused", c.text)
			}
		}
		failures++
		s.wantMetric(t, 0, "sidecar_config_last_reload_successful")
		if r := s.get("A", "/x"); r.status != http.StatusOK {
			t.Errorf("%s: a call after the refusal: %v", c.text, r)
		}
		if page := s.do(context.Background(), http.MethodGet, "ADMIN", "/", nil); !strings.Contains(page.body, key) {
			t.Errorf("%s: the page does not show the fault", c.text)
		}
	}
	if n := len(s.logs("level", "error", "msg", "configuration not reloaded")); n < failures {
		t.Errorf("%d refusals logged, want %d", n, failures)
	}
	if n := reloads("success"); n != 0 {
		t.Errorf("%v reloads counted as successes", n)
	}
	text, err := s.ask(http.MethodGet, s.url("ADMIN")+"/api/config", "")
	if err != nil || !strings.Contains(string(text), "timeout: 5s") {
		t.Errorf("the effective configuration is\n%s %v", text, err)
	}
	s.write(t, slipped("$A", "$U", "timeout: 4s"))
	s.signal(t, syscall.SIGHUP)
	s.wantMetric(t, 1, "sidecar_config_last_reload_successful")
	s.wantMetric(t, 1, "sidecar_config_reloads_total", "result", "success")
	if text, err := s.ask(http.MethodGet, s.url("ADMIN")+"/api/config", ""); err != nil || !strings.Contains(string(text), "timeout: 4s") {
		t.Errorf("after a good file the effective configuration is\n%s %v", text, err)
	}
	if page := s.do(context.Background(), http.MethodGet, "ADMIN", "/", nil); strings.Contains(page.body, "failed. The configuration") {
		t.Errorf("the page still shows a fault:\n%s", page.body)
	}
}
