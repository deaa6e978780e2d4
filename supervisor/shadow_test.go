package supervisor

import (
	"testing"
	"time"

	"sidecar/config"
	"sidecar/proxy"
	"sidecar/resilience/breaker"
	"sidecar/resilience/bulkhead"
)

// A proposal goes over the live settings: a proposed breaker enforces, whatever
// the live mode is, and brings its ramp; what is not proposed stays as it is.
func TestSettingsOfShadows(t *testing.T) {
	live := func(change func(*proxy.Shadow)) *proxy.Shadow {
		s := &proxy.Shadow{
			Breaker: breaker.Policy{
				Mode: breaker.Observe, Window: breaker.Window{Calls: 20}, MinCalls: 5, FailureRatio: 0.5,
				SlowCall: breaker.SlowCall{After: 2 * time.Second, Ratio: 0.8},
				Cooldown: 30 * time.Second, Backoff: breaker.Backoff{Factor: 1, Max: 5 * time.Minute}, Jitter: 0.1, Probes: 1,
			},
			Bulkhead: bulkhead.Policy{MaxConcurrent: 4, MaxWaiting: 10, QueueTimeout: 250 * time.Millisecond, Ramp: 10 * time.Second},
		}
		change(s)
		return s
	}
	for text, want := range map[string]*proxy.Shadow{
		"{breaker: {min_calls: 3, ramp: 9s}}": live(func(s *proxy.Shadow) {
			s.Breaker.Mode, s.Breaker.MinCalls, s.Bulkhead.Ramp = breaker.Enforce, 3, 9*time.Second
		}),
		"{breaker: {slow_call: {ratio: 0}}}": live(func(s *proxy.Shadow) { s.Breaker.Mode, s.Breaker.SlowCall.Ratio = breaker.Enforce, 0 }),
		"{bulkhead: {max_waiting: 0}}":       live(func(s *proxy.Shadow) { s.Bulkhead.MaxWaiting = 0 }),
	} {
		c, err := config.Parse("t.yaml", []byte(`
dependencies:
  - name: a
    listen: 127.0.0.1:7001
    upstream: http://up.internal
    breaker: {mode: observe, slow_call: {after: 2s}}
    bulkhead: {max_concurrent: 4}
    shadow: `+text), config.Process{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := Settings(c.Dependencies[0])
		if err != nil {
			t.Fatal(err)
		}
		if *got.Shadow != *want {
			t.Errorf("%s:\n got %+v\nwant %+v", text, got.Shadow, want)
		}
		if got.Breaker.Mode != breaker.Observe || got.Bulkhead.MaxWaiting != 10 || got.Breaker.MinCalls != 5 {
			t.Errorf("%s changed what is live: %+v", text, got)
		}
	}
}
