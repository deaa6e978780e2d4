package e2e

import (
	"encoding/json"
	"net/http"
	"sync"
	"testing"
)

// proposal is a shadow as the API shows it; nil without one.
type proposal struct {
	State       string
	Window      struct{ Calls, Failures, Slow int }
	OpenedTotal int `json:"opened_total"`
	Bulkhead    struct {
		MaxConcurrent int `json:"max_concurrent"`
		InUse         int `json:"in_use"`
	}
	WouldReject map[string]int `json:"would_reject"`
	WouldAdmit  map[string]int `json:"would_admit"`
	Agreed      struct{ Admit, Refuse int }
}

func (s *sidecar) proposal(t *testing.T, name string) *proposal {
	t.Helper()
	text, err := s.ask(http.MethodGet, "http://"+s.addresses["ADMIN"]+"/api/dependencies/"+name, "")
	if err != nil {
		t.Fatal(err)
	}
	var d struct{ Shadow *proposal }
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return d.Shadow
}

// wantNothingSimulated waits until the proposed bulkhead is empty: a call ends
// shortly after its last byte.
func (s *sidecar) wantNothingSimulated(t *testing.T) {
	t.Helper()
	if !poll(patience, func() bool { return s.proposal(t, "a").Bulkhead.InUse == 0 }) {
		t.Fatalf("the proposal still shows %+v", s.proposal(t, "a"))
	}
}

// TestShadow_JudgesAChangeBeforeItIsMade: an operator proposes to open sooner
// and to permit fewer calls, sees on real traffic what that would have done
// while nothing is refused, makes the change, and it does so.
func TestShadow_JudgesAChangeBeforeItIsMade(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	u := newUpstream(t, func(x *exchange) {
		switch x.req.URL.Path {
		case "/held":
			x.until(release)
			x.respond(http.StatusOK, "ok")
		case "/fails":
			x.respond(http.StatusInternalServerError, "no")
		default:
			x.respond(http.StatusOK, "ok")
		}
	})
	config := func(keys string) string {
		return base + `
dependencies:
  - name: a
    listen: $A
    upstream: http://$U
    timeout: 20s
    attempt_timeout: 20s
` + keys
	}
	s := start(t, config(`
    breaker: {consecutive_failures: 6, cooldown: 60s}
    bulkhead: {max_concurrent: 3, max_waiting: 0}
    shadow:
      breaker: {consecutive_failures: 3}
      bulkhead: {max_concurrent: 2}
`), u)

	// Three calls at a time: one more than proposed. A fourth is refused by
	// both.
	var held sync.WaitGroup
	defer held.Wait()
	for n := range 3 {
		held.Go(func() {
			if r := s.get("A", "/held"); r.status != http.StatusOK {
				t.Errorf("a call that the proposal alone would refuse: %v", r)
			}
		})
		u.await(t, n+1)
	}
	if r := s.get("A", "/held"); r.status != http.StatusServiceUnavailable {
		t.Errorf("a fourth call: %v", r)
	}
	if p := s.proposal(t, "a"); p == nil || p.Bulkhead.InUse != 2 || p.Bulkhead.MaxConcurrent != 2 || p.WouldReject["queue_full"] != 1 || p.Agreed.Refuse != 1 {
		t.Errorf("the proposal shows %+v", p)
	}
	close(release)
	held.Wait()
	s.wantNothingSimulated(t)

	// Two failures and a success are a near miss; three failures open the
	// proposed circuit, and the two calls after them still run.
	for _, path := range []string{"/fails", "/fails", "/", "/fails", "/fails", "/fails", "/", "/fails"} {
		if r := s.get("A", path); r.status == http.StatusServiceUnavailable {
			t.Errorf("%s was refused: %v", path, r)
		}
		s.wantNothingSimulated(t)
	}
	s.wantMetric(t, 2, "sidecar_shadow_breaker_state", "dependency", "a")
	s.wantMetric(t, 0, "sidecar_breaker_state", "dependency", "a")
	s.wantMetric(t, 2, "sidecar_shadow_would_reject_total", "dependency", "a", "reason", "open")
	s.wantMetric(t, 1, "sidecar_shadow_would_reject_total", "dependency", "a", "reason", "queue_full")
	s.wantMetric(t, 0, "sidecar_shadow_would_admit_total", "dependency", "a")
	s.wantMetric(t, 8, "sidecar_shadow_agreed_total", "dependency", "a", "decision", "admit")
	s.wantMetric(t, 1, "sidecar_shadow_agreed_total", "dependency", "a", "decision", "refuse")
	s.wantMetric(t, 1, "sidecar_shadow_breaker_transitions_total", "dependency", "a", "to", "open")
	s.wantMetric(t, 0, "sidecar_breaker_transitions_total", "dependency", "a")
	if p := s.proposal(t, "a"); p.State != "open" || p.OpenedTotal != 1 || p.WouldReject["open"] != 2 || p.Agreed.Admit != 8 {
		t.Errorf("the proposal shows %+v", p)
	}
	if lines := s.logs("msg", "shadow breaker changed, nothing is refused"); len(lines) != 1 || lines[0]["to"] != "open" || lines[0]["level"] != "info" {
		t.Errorf("logged %v, want the one transition at info", lines)
	}

	// The change is made: the shadow goes with its series, and what it said is
	// what happens.
	s.reload(t, config(`
    breaker: {consecutive_failures: 3, cooldown: 60s}
    bulkhead: {max_concurrent: 2, max_waiting: 0}
`))
	if p := s.proposal(t, "a"); p != nil {
		t.Errorf("the proposal is still there: %+v", p)
	}
	for _, name := range []string{"sidecar_shadow_breaker_state", "sidecar_shadow_would_reject_total", "sidecar_shadow_agreed_total"} {
		if found := s.metrics(t).find(name); len(found) != 0 {
			t.Errorf("series of a shadow that is gone: %v", found)
		}
	}
	s.get("A", "/") // ends the run of before
	for range 3 {
		s.get("A", "/fails")
	}
	if r := s.get("A", "/"); r.status != http.StatusServiceUnavailable {
		t.Errorf("after three failures under the new settings: %v, want 503", r)
	}
}

// TestShadow_SurvivesAReloadOfSomethingElse: evidence lives on where neither
// the proposal nor the upstream changed.
func TestShadow_SurvivesAReloadOfSomethingElse(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(x *exchange) { x.respond(http.StatusInternalServerError, "no") })
	config := func(timeout string) string {
		return base + `
dependencies:
  - name: a
    listen: $A
    upstream: http://$U
    breaker: {consecutive_failures: 1000, cooldown: 60s}
    timeout: ` + timeout + `
    shadow: {breaker: {consecutive_failures: 2}}
`
	}
	s := start(t, config("2s"), u)
	for range 3 {
		s.get("A", "/")
	}
	s.wantMetric(t, 1, "sidecar_shadow_would_reject_total", "dependency", "a")
	s.reload(t, config("3s"))
	s.get("A", "/")
	s.wantMetric(t, 2, "sidecar_shadow_would_reject_total", "dependency", "a")
	if p := s.proposal(t, "a"); p.State != "open" || p.OpenedTotal != 1 {
		t.Errorf("the proposal shows %+v, want it open as before", p)
	}
}
