package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestCommand_Advise: while every call is answered with 429 the circuit stays
// closed; sidecar advise says so, with the key to change. Its patch is a valid
// configuration, and in force it opens the circuit.
func TestCommand_Advise(t *testing.T) {
	t.Parallel()
	const yaml = "dependencies:\n  - {name: a b, listen: $A, upstream: \"http://me:secret@$U\", attempt_timeout: 500ms}\n" +
		"  - {name: quiet, listen: $B, upstream: \"http://$U\"}\n"
	s := start(t, yaml, newUpstream(t, fails(http.StatusTooManyRequests)))
	advise := func(args ...string) string {
		t.Helper()
		r := runCommand(t, append([]string{"advise", "-c", s.path}, args...))
		if r.code != 0 || r.err != "" || strings.Contains(r.out, "secret") {
			t.Fatalf("sidecar advise %v: %+v", args, r)
		}
		return r.out
	}
	if out := advise(); !strings.Contains(out, "quiet: 0 calls") || !strings.Contains(out, "nothing to change") {
		t.Errorf("before any call:\n%s", out)
	}
	for range 30 {
		s.get("A", "/x")
	}
	if !poll(patience, func() bool { return strings.Contains(advise("a b"), "30 attempts") }) {
		t.Fatalf("the advice does not tell of 30 attempts:\n%s", advise("a b"))
	}
	const change = `failure.statuses: ["500-599", "!501", "!505"] -> ["500-599", "!501", "!505", "429"]`
	if out := advise(); !strings.Contains(out, "warning: errors pass as successes") || !strings.Contains(out, change) ||
		!strings.Contains(out, "limits.max_concurrent: (none) -> 40") {
		t.Errorf("sidecar advise says\n%s", out)
	}
	var all struct {
		Advice []struct {
			Name     string
			Findings []struct{ Kind, Key string }
		}
	}
	if err := json.Unmarshal([]byte(advise("-o", "json")), &all); err != nil {
		t.Fatal(err)
	}
	if len(all.Advice) != 2 || all.Advice[0].Name != "a b" || all.Advice[0].Findings[0].Kind != "blind_predicate" || len(all.Advice[1].Findings) != 0 {
		t.Errorf("as JSON: %+v", all)
	}

	both := file(t, "both.yaml", advise("-o", "yaml"))
	if r := runCommand(t, []string{"validate", both}); r.code != 0 || !strings.Contains(r.out, "2 dependencies") {
		t.Errorf("the patch of both is not valid: %+v\n%s", r, advise("-o", "yaml"))
	}
	patch := advise("-o", "yaml", "a b")
	if r := runCommand(t, []string{"validate", file(t, "one.yaml", patch)}); r.code != 0 {
		t.Errorf("the patch is not valid: %+v\n%s", r, patch)
	}
	s.reload(t, patch+"    attempt_timeout: 500ms\n")
	for range 20 {
		s.get("A", "/x")
	}
	if b := s.api(t, "a b").Breaker; b.State != "open" {
		t.Errorf("with the patch in force the circuit is %s", b.State)
	}

	for _, c := range []struct {
		code int
		args []string
	}{{1, []string{"nobody"}}, {2, []string{"-o", "xml"}}, {2, []string{"a b", "quiet"}}} {
		if r := runCommand(t, append([]string{"advise", "-c", s.path}, c.args...)); r.code != c.code || r.out != "" {
			t.Errorf("sidecar advise %v: %+v", c.args, r)
		}
	}
}

// TestHistory: the steps of the past add up to the calls made.
func TestHistory(t *testing.T) {
	t.Parallel()
	s := start(t, one, newUpstream(t, ok))
	for range 50 {
		s.get("A", "/x")
	}
	var got struct {
		StepSeconds  int `json:"step_seconds"`
		Until        time.Time
		Dependencies []struct {
			Name, State string
			OK          []float64
			P50         []*float64 `json:"p50_seconds"`
			Limit       []float64
		}
	}
	calls := func() (sum float64) {
		r := s.admin(http.MethodGet, "/api/history?name=a")
		if err := json.Unmarshal([]byte(r.body), &got); r.status != http.StatusOK || err != nil || len(got.Dependencies) != 1 {
			t.Fatalf("GET /api/history: %v, %v", r, err)
		}
		for _, rate := range got.Dependencies[0].OK {
			sum += rate * float64(got.StepSeconds)
		}
		return sum
	}
	if !poll(2*patience, func() bool { return calls() > 49 }) {
		t.Fatalf("the history tells of %.1f calls, want 50: %+v", calls(), got)
	}
	d := got.Dependencies[0]
	if sum := calls(); sum > 51 || strings.Trim(d.State, "c") != "" || len(d.OK) != len(d.State) || len(d.P50) != len(d.State) || d.Limit[0] != 10 {
		t.Errorf("of 50 calls the history tells %+v", d)
	}
	if age := time.Since(got.Until); age < 0 || age > patience {
		t.Errorf("the history ends %v ago", age)
	}
	if r := s.admin(http.MethodGet, "/api/history?name=b"); r.status != http.StatusNotFound {
		t.Errorf("the history of nobody: %v", r)
	}
}
