package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// drillable is one dependency with copies and drills allowed, or not.
func drillable(drills string) string {
	return "admin: {listen: $ADMIN, drills: " + drills + "}\n" + base + `
dependencies:
  - name: a
    listen: $A
    upstream: http://$U
    breaker: {cooldown: 3s}
    fallback: [stale: {max_age: 10m}]
`
}

// drill runs the command against a process and wants its exit code.
func (s *sidecar) drill(t *testing.T, code int, args ...string) outcome {
	t.Helper()
	r := runCommand(t, append([]string{"drill", "-c", s.path}, args...))
	if r.code != code || (code == 0) != (r.err == "") {
		t.Fatalf("sidecar drill %v: %+v, want exit code %d", args, r, code)
	}
	return r
}

// drills asks the API for the drill of "a"; "null" without one.
func (s *sidecar) drills(t *testing.T) string {
	t.Helper()
	text, err := s.ask(http.MethodGet, "http://"+s.addresses["ADMIN"]+"/api/dependencies/a/drill", "")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// TestDrill_ShowsTheFallback: an operator makes a healthy dependency look dead.
// Callers get their copies, the circuit opens, every view tells of the drill,
// the upstream sees nothing of it; then it ends by itself and all is well.
func TestDrill_ShowsTheFallback(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(x *exchange) { x.respond(http.StatusOK, "fresh") })
	s := start(t, drillable("true"), u)
	events := s.dial(t, "ADMIN")
	events.send(t, "GET /api/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
	if r := s.get("A", "/x"); r.status != http.StatusOK || r.header.Get("Sidecar-Drill") != "" {
		t.Fatalf("before the drill: %v", r)
	}

	r := s.drill(t, 0, "a", "--refuse", "--for", "6s")
	began := time.Now()
	for _, words := range []string{"a: refuse on 100% of the attempts for 6s, until ", "sidecar drill a --stop --config " + s.path} {
		if !strings.Contains(r.out, words) {
			t.Errorf("the command says %q, want in it %q", r.out, words)
		}
	}
	for n := range 4 { // the third opens the circuit
		r := s.get("A", "/x")
		reason, drill := "connect", "refuse"
		if n == 3 {
			reason, drill = "open", ""
		}
		if want := "stale; reason=" + reason + "; age=0"; r.status != http.StatusOK || r.body != "fresh" ||
			r.header.Get("Sidecar-Degraded") != want || r.header.Get("Sidecar-Drill") != drill {
			t.Errorf("call %d: %v with %v, want the copy, %s", n, r, r.header, want)
		}
	}
	s.wantMetric(t, 1, "sidecar_drill_active", "dependency", "a")
	s.wantMetric(t, 3, "sidecar_drill_injected_total", "dependency", "a", "fault", "refuse")
	s.wantMetric(t, 3, "sidecar_drill_withheld_total", "dependency", "a")
	s.wantMetric(t, 3, "sidecar_attempts_total", "dependency", "a", "result", "connect")
	s.wantMetric(t, 2, "sidecar_breaker_state", "dependency", "a")
	if row := s.pageRow(t, "a"); !strings.Contains(strings.Join(row, "|"), "fire drill: refuse on 100 % of attempts, 3 injected") {
		t.Errorf("the page shows %q", row)
	}
	if got := s.drills(t); !strings.HasPrefix(got, `{"fault":"refuse","share":1,"until":"`) || !strings.HasSuffix(got, `"injected":3}`) {
		t.Errorf("the API shows %s", got)
	}
	if n := u.requests(); n != 1 {
		t.Errorf("the upstream saw %d requests, want the one before the drill", n)
	}

	if !poll(patience, func() bool { return s.drills(t) == "null" }) {
		t.Fatal("the drill does not end")
	}
	wantWithin(t, "the drill", time.Since(began), 6*time.Second+slack)
	s.wantMetric(t, 0, "sidecar_drill_active", "dependency", "a")
	if !poll(patience, func() bool {
		r := s.get("A", "/x")
		return r.status == http.StatusOK && r.header.Get("Sidecar-Degraded") == ""
	}) {
		t.Error("the upstream does not answer again after the drill")
	}
	for msg, reason := range map[string]any{"drill begun through the admin listener: faults are injected": nil, "drill ended": "over"} {
		if lines := s.logs("msg", msg); len(lines) != 1 || lines[0]["level"] != "warn" || lines[0]["reason"] != reason {
			t.Errorf("logged %v, want one %q at warn", lines, msg)
		}
	}
	if lines := s.logs("msg", "call", "drill", "refuse"); len(lines) != 3 {
		t.Errorf("%d calls logged as drilled, want 3", len(lines))
	}
	heard := ""
	for !strings.Contains(heard, `"ended":"over"`) {
		line, err := events.in.ReadString('\n')
		if heard += line; err != nil {
			t.Fatalf("the stream of events ended with %v after %s", err, heard)
		}
	}
	if strings.Count(heard, "event: drill\n") != 2 || !strings.Contains(heard, `"ended":null`) {
		t.Errorf("heard %s, want the drill's beginning and end", heard)
	}
}

// TestDrill_LatencyAndErrors: injected latency is seen by callers and not by
// the upstream; an injected status is the answer where nothing stands in; a
// stopped drill is over at once, and its waiting calls go on.
func TestDrill_LatencyAndErrors(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, ok)
	s := start(t, drillable("true"), u)
	s.drill(t, 0, "a", "--latency", "200ms", "--for", "1m")
	began := time.Now()
	r := s.get("A", "/slow")
	if r.status != http.StatusOK || r.header.Get("Sidecar-Drill") != "latency 200ms" || r.header.Get("Proxy-Status") != "" {
		t.Errorf("a slowed call: %v with %v", r, r.header)
	}
	if took := time.Since(began); took < 200*time.Millisecond {
		t.Errorf("a slowed call took %v", took)
	}

	s.drill(t, 0, "a", "--error", "503", "--for", "1m")
	r = s.do(t.Context(), http.MethodPost, "A", "/x", strings.NewReader("body"))
	if r.status != http.StatusServiceUnavailable || r.header.Get("Sidecar-Drill") != "error 503" ||
		r.header.Get("Proxy-Status") != `sidecar; error=proxy_internal_response; details="drill"` ||
		r.header.Get("Content-Type") != "application/problem+json" || !strings.Contains(r.body, "Fire drill: ") {
		t.Errorf("an injected status: %v with %v", r, r.header)
	}
	if lines := s.logs("msg", "drill ended", "reason", "replaced"); len(lines) != 1 {
		t.Errorf("logged %v, want that the first drill was replaced", lines)
	}
	if n := u.requests(); n != 1 {
		t.Errorf("the upstream saw %d requests, want the slowed one", n)
	}
	if r := s.drill(t, 0, "a", "--stop"); r.out != "a: no drill runs\n" {
		t.Errorf("stopped: %q", r.out)
	}
	if r := s.get("A", "/x"); r.status != http.StatusOK || r.header.Get("Sidecar-Drill") != "" {
		t.Errorf("after the stop: %v with %v", r, r.header)
	}

	// About half of the attempts: the chance of none or all of 40 is nil.
	s.drill(t, 0, "a", "--error", "429", "--share", "50%", "--for", "1m")
	hit := 0
	for range 40 {
		if s.get("A", "/share").status == http.StatusTooManyRequests {
			hit++
		}
	}
	if hit == 0 || hit == 40 {
		t.Errorf("half of the attempts were %d of 40", hit)
	}
}

// TestDrill_NeedsLeave: without admin.drills nothing begins and the answer says
// what to do; taking the leave away ends what runs; a restart has none.
func TestDrill_NeedsLeave(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, ok)
	s := start(t, drillable("false"), u)
	args := []string{"a", "--refuse", "--for", "1h"}
	if r := s.drill(t, 1, args...); !strings.Contains(r.err, "set admin.drills to true and reload") {
		t.Errorf("without leave: %q", r.err)
	}
	s.reload(t, drillable("true"))
	// What makes no sense is told from what the API refuses.
	for code, refused := range map[int]map[string][]string{
		2: {
			"name one dependency, got 0":                 {"--refuse", "--for", "1s"},
			"give --latency 8s, --error 503 or --refuse": {"a", "--for", "1s"},
			"--latency and --error do not go together":   {"a", "--latency", "8s", "--error", "503", "--for", "1s"},
			"--refuse and --stop do not go together":     {"a", "--refuse", "--stop"},
			"leave --for and --share out":                {"a", "--stop", "--for", "1s"},
			"give --for 30s":                             {"a", "--refuse"},
		},
		1: {
			"there is no dependency of this name":    {"nobody", "--refuse", "--for", "1s"},
			"for must be a duration":                 {"a", "--refuse", "--for", "2h"},
			"error must be a status from 400 to 599": {"a", "--error", "200", "--for", "1s"},
			"share must be a percentage":             {"a", "--refuse", "--share", "half", "--for", "1s"},
		},
	} {
		for words, args := range refused {
			if r := s.drill(t, code, args...); !strings.Contains(r.err, words) || strings.Count(r.err, "\n") != 1 {
				t.Errorf("sidecar drill %v: %q, want one line with %q", args, r.err, words)
			}
		}
	}
	if got := s.drills(t); got != "null" {
		t.Errorf("a refused order was carried out: %s", got)
	}

	s.drill(t, 0, args...)
	s.reload(t, drillable("true")+"    connect_timeout: 300ms\n")
	if s.drills(t) == "null" {
		t.Error("a reload of something else ended the drill")
	}
	s.reload(t, drillable("false"))
	if got := s.drills(t); got != "null" {
		t.Errorf("a drill outlived its leave: %s", got)
	}
	if lines := s.logs("msg", "drill ended", "reason", "forbidden"); len(lines) != 1 {
		t.Errorf("logged %v, want that the drill was forbidden", lines)
	}
	s.reload(t, drillable("true"))
	s.drill(t, 0, args...)
	s.stop(t)
	if lines := s.logs("msg", "drill ended", "reason", "shutdown"); len(lines) != 1 {
		t.Errorf("logged %v, want that the drill ended with the process", lines)
	}

	again := launch(t, drillable("true"), u)
	if !again.awaitReady(t) {
		t.Fatalf("no second start: %s", again.output.text())
	}
	defer again.stop(t)
	if r := again.get("A", "/x"); again.drills(t) != "null" || r.status != http.StatusOK || r.header.Get("Sidecar-Drill") != "" {
		t.Errorf("after the restart: %v, %s", r, again.drills(t))
	}
}

// TestDrill_CallerLeavesTheWait: while a drill holds a request up its body is
// not read; that its caller has left is noticed all the same, and counts for
// nothing.
func TestDrill_CallerLeavesTheWait(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, ok)
	s := start(t, drillable("true")+"    timeout: 1m\n    attempt_timeout: 1m\n", u)
	s.drill(t, 0, "a", "--latency", "1m", "--for", "1m")
	for n, request := range []string{
		"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello",
		"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n",
	} {
		c := s.dial(t, "A")
		c.send(t, request)
		s.wantMetric(t, 1, "sidecar_bulkhead_in_use", "dependency", "a")
		c.leave()
		s.wantMetric(t, float64(n+1), "sidecar_attempts_total", "dependency", "a", "result", "canceled")
		s.wantMetric(t, 0, "sidecar_bulkhead_in_use", "dependency", "a")
	}
	if w := s.api(t, "a").Breaker.Window; w.Calls != 0 || u.requests() != 0 {
		t.Errorf("the breaker counted %+v, the upstream saw %d requests; want nothing", w, u.requests())
	}
}
