package config

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A shadow proposes what it sets; all else is live, from whatever level.
func TestShadowTakesLiveValues(t *testing.T) {
	c := parse(t, `
defaults:
  breaker: {mode: observe, slow_call: {after: 2s}, min_calls: 7}
dependencies:
  - name: a
    listen: 127.0.0.1:7001
    upstream: http://user:secret@a.internal
    shadow:
      breaker: {consecutive_failures: 3, slow_call: {ratio: 0.5}}
      bulkhead: {max_waiting: 0}
    breaker: {window: 30s}
    bulkhead: {max_concurrent: 4}
  - name: b
    listen: 127.0.0.1:7002
    upstream: http://b.internal
    shadow: {breaker: {slow_call: {ratio: 0}}}
  - name: c
    listen: 127.0.0.1:7003
    upstream: http://c.internal
`, Process{})
	a, b := c.Dependencies[0], c.Dependencies[1]
	want := a.Breaker.Rules
	want.ConsecutiveFailures, want.SlowCall = 3, &SlowCall{After: 2 * time.Second, Ratio: 0.5}
	if d := cmp.Diff(&Shadow{Breaker: &want, Bulkhead: &Bulkhead{MaxConcurrent: 4, QueueTimeout: 250 * time.Millisecond}}, a.Shadow); d != "" {
		t.Errorf("a (-want +got):\n%s", d)
	}
	if a.Breaker.SlowCall.Ratio != 0.8 || a.Breaker.ConsecutiveFailures != 0 || a.Bulkhead.MaxWaiting != 10 || a.Breaker.Mode != "observe" {
		t.Errorf("the proposal changed what is live: %+v, %+v", a.Breaker, a.Bulkhead)
	}
	if b.Shadow.Bulkhead != nil || b.Shadow.Breaker.SlowCall.Ratio != 0 || b.Breaker.SlowCall == nil {
		t.Errorf("b proposes %+v beside %+v, want to drop slow_call alone", b.Shadow, b.Breaker)
	}
	if c.Dependencies[2].Shadow != nil {
		t.Error("c has a shadow that nobody wrote")
	}
	text := effective(t, c)
	if strings.Contains(text, "secret") || strings.Count(text, "shadow:") != 2 || !strings.Contains(text, "consecutive_failures: 3") {
		t.Errorf("the effective configuration is\n%s", text)
	}
}

// What can never open is worth a word in a proposal, too.
func TestShadowWarning(t *testing.T) {
	c := parse(t, oneDependency+"    shadow: {breaker: {min_calls: 21}}\n", Process{})
	const want = `dependency "a": the shadow's breaker can never open by ratio: shadow.breaker.min_calls is above the calls in shadow.breaker.window`
	if w := c.Warnings(); len(w) != 1 || w[0] != want {
		t.Errorf("warnings %q, want %q", w, want)
	}
}
