package supervisor

import (
	"net/http"
	"slices"

	"sidecar/config"
	"sidecar/proxy"
	"sidecar/resilience/breaker"
	"sidecar/resilience/bulkhead"
	"sidecar/resilience/retry"
)

// settings turns a dependency's configuration into what the proxy runs on.
func settings(d config.Dependency) *proxy.Settings {
	s := &proxy.Settings{
		Upstream:     d.Upstream,
		PreserveHost: d.PreserveHost,
		Breaker:      breakerPolicy(d.Breaker),
		Bulkhead: bulkhead.Policy{
			MaxConcurrent: d.Bulkhead.MaxConcurrent,
			MaxWaiting:    d.Bulkhead.MaxWaiting,
			QueueTimeout:  d.Bulkhead.QueueTimeout,
			Ramp:          d.Breaker.Ramp,
		},
		Policy: policy(d.Policy),
	}
	for _, r := range d.Routes {
		s.Routes = append(s.Routes, proxy.Route{
			Methods: r.Methods, Path: r.Path, PathPrefix: r.PathPrefix,
			OwnFallback: r.OwnFallback, Policy: policy(r.Policy),
		})
	}
	return s
}

func breakerPolicy(b config.Breaker) breaker.Policy {
	p := breaker.Policy{
		Mode:                map[string]breaker.Mode{"enforce": breaker.Enforce, "observe": breaker.Observe, "off": breaker.Off}[b.Mode],
		Window:              breaker.Window{Calls: b.Window.Calls, Span: b.Window.Span},
		MinCalls:            b.MinCalls,
		FailureRatio:        b.FailureRatio,
		ConsecutiveFailures: b.ConsecutiveFailures,
		Cooldown:            b.Cooldown,
		Backoff:             breaker.Backoff{Factor: b.Backoff.Factor, Max: b.Backoff.Max},
		Jitter:              b.Jitter,
		Probes:              b.Probes,
	}
	if b.SlowCall != nil {
		p.SlowCall = breaker.SlowCall{After: b.SlowCall.After, Ratio: b.SlowCall.Ratio}
	}
	return p
}

func policy(c config.Policy) proxy.Policy {
	p := proxy.Policy{
		Timeout:         c.Timeout,
		AttemptTimeout:  c.AttemptTimeout,
		ConnectTimeout:  c.ConnectTimeout,
		IdleTimeout:     c.IdleTimeout,
		MaxRequestBytes: c.MaxRequestBytes,
		Failure:         c.Failure.Statuses.Match,
		Retry: proxy.Retry{
			MaxRetries:   c.Retry.MaxRetries,
			OnStatus:     c.Retry.Statuses().Match,
			Backoff:      retry.Backoff{Base: c.Retry.Backoff.Base, Max: c.Retry.Backoff.Max},
			Budget:       retry.BudgetPolicy{Ratio: c.Retry.Budget.Ratio, MinPerSecond: c.Retry.Budget.MinPerSecond},
			MaxBodyBytes: c.Retry.MaxBodyBytes,
		},
	}
	for _, why := range []proxy.Reason{proxy.ReasonConnect, proxy.ReasonReset, proxy.ReasonTimeout} {
		if slices.Contains(c.Retry.On, string(why)) {
			p.Retry.OnReason = append(p.Retry.OnReason, why)
		}
	}
	for _, f := range c.Fallback {
		p.Fallback = append(p.Fallback, fallback(f))
	}
	return p
}

func fallback(f config.Fallback) proxy.Fallback {
	if f.Stale != nil {
		return proxy.Fallback{Stale: &proxy.Stale{MaxAge: f.Stale.MaxAge}}
	}
	// Names go out as the operator wrote them.
	header := http.Header{}
	for name, value := range f.Static.Headers {
		header[name] = []string{value}
	}
	return proxy.Fallback{Static: &proxy.Static{Status: f.Static.Status, Header: header, Body: f.Static.Body}}
}
