package supervisor

import (
	"net/http"
	"reflect"
	"testing"
	"time"

	"sidecar/config"
	"sidecar/proxy"
	"sidecar/resilience/breaker"
	"sidecar/resilience/bulkhead"
	"sidecar/resilience/retry"
)

// Every key of a dependency reaches the proxy: the file sets each to a value
// that is not its default.
func TestSettingsCarryEveryKey(t *testing.T) {
	c, err := config.Parse("t.yaml", []byte(`
dependencies:
  - name: a
    listen: 127.0.0.1:7001
    upstream: http://u:p@up.internal:81/base
    preserve_host: true
    protocol: h2c
    timeout: 11s
    attempt_timeout: 12s
    connect_timeout: 13s
    idle_timeout: 14s
    max_request_bytes: 15B
    breaker:
      mode: observe
      window: 16s
      min_calls: 17
      failure_ratio: 0.18
      consecutive_failures: 19
      slow_call: {after: 20s, ratio: 0.21}
      cooldown: 22s
      backoff: {factor: 2.3, max: 24m}
      jitter: 0.25
      probes: 26
      ramp: 27s
    bulkhead: {max_concurrent: 28, max_waiting: 29, queue_timeout: 30s}
    failure: {statuses: ["418"], grpc_statuses: [NOT_FOUND]}
    retry:
      max_retries: 31
      "on": [reset, "432"]
      backoff: {base: 33ms, max: 34ms}
      budget: {ratio: 0.35, min_per_second: 36}
      max_body_bytes: 37B
    fallback:
      - stale: {max_age: 38s}
      - static: {status: 239, headers: {x-Y.z: w}, body: forty}
    routes:
      - match: {methods: [POST], path_prefix: /p}
        timeout: 41s
        fallback: []
`), config.Process{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := Settings(c.Dependencies[0])
	if err != nil {
		t.Fatal(err)
	}
	policies := []*proxy.Policy{&got.Policy, &got.Routes[0].Policy}
	for _, p := range policies {
		if !p.Failure(418) || p.Failure(500) {
			t.Error("failure.statuses is not carried over")
		}
		if !p.Retry.OnStatus(432) || p.Retry.OnStatus(503) {
			t.Error("retry.on is not carried over")
		}
		if !p.FailureGRPC(5) || p.FailureGRPC(14) {
			t.Error("failure.grpc_statuses is not carried over")
		}
		p.Failure, p.FailureGRPC, p.Retry.OnStatus = nil, nil, nil // functions do not compare
	}
	policy := proxy.Policy{
		Timeout: 11 * time.Second, AttemptTimeout: 12 * time.Second, ConnectTimeout: 13 * time.Second,
		IdleTimeout: 14 * time.Second, MaxRequestBytes: 15,
		Retry: proxy.Retry{
			MaxRetries: 31, OnReason: []proxy.Reason{proxy.ReasonReset},
			Backoff:      retry.Backoff{Base: 33 * time.Millisecond, Max: 34 * time.Millisecond},
			Budget:       retry.BudgetPolicy{Ratio: 0.35, MinPerSecond: 36},
			MaxBodyBytes: 37,
		},
		Fallback: []proxy.Fallback{
			{Stale: &proxy.Stale{MaxAge: 38 * time.Second}},
			{Static: &proxy.Static{Status: 239, Header: http.Header{"x-Y.z": {"w"}}, Body: []byte("forty")}},
		},
	}
	route := policy
	route.Timeout, route.Fallback = 41*time.Second, nil
	want := &proxy.Settings{
		Upstream: c.Dependencies[0].Upstream, PreserveHost: true, Protocol: proxy.ProtocolH2C,
		Breaker: breaker.Policy{
			Mode: breaker.Observe, Window: breaker.Window{Span: 16 * time.Second}, MinCalls: 17,
			FailureRatio: 0.18, ConsecutiveFailures: 19,
			SlowCall: breaker.SlowCall{After: 20 * time.Second, Ratio: 0.21}, Cooldown: 22 * time.Second,
			Backoff: breaker.Backoff{Factor: 2.3, Max: 24 * time.Minute}, Jitter: 0.25, Probes: 26,
		},
		Bulkhead: bulkhead.Policy{MaxConcurrent: 28, MaxWaiting: 29, QueueTimeout: 30 * time.Second, Ramp: 27 * time.Second},
		Policy:   policy,
		Routes:   []proxy.Route{{Methods: []string{"POST"}, PathPrefix: "/p", OwnFallback: true, Policy: route}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("settings:\n got %+v\nwant %+v", got, want)
	}
}
