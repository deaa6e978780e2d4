package supervisor

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"slices"
	"time"

	"sidecar/config"
	"sidecar/proxy"
	"sidecar/resilience/breaker"
	"sidecar/resilience/bulkhead"
	"sidecar/resilience/retry"
)

// Settings turns a dependency's configuration into what the proxy runs on.
// Its error names a certificate file that cannot be used.
func Settings(d config.Dependency) (*proxy.Settings, error) {
	certificates, err := certificates(d)
	if err != nil {
		return nil, err
	}
	s := &proxy.Settings{
		Protocol:     protocols[d.Protocol],
		TLS:          certificates,
		Upstream:     d.Upstream,
		PreserveHost: d.PreserveHost,
		Breaker:      breakerPolicy(d.Breaker),
		Bulkhead:     bulkheadPolicy(d.Bulkhead, d.Breaker.Ramp),
		Policy:       policy(d.Policy),
	}
	if d.Shadow != nil {
		s.Shadow = shadow(*d.Shadow, s)
	}
	for _, r := range d.Routes {
		s.Routes = append(s.Routes, proxy.Route{
			Methods: r.Methods, Path: r.Path, PathPrefix: r.PathPrefix,
			OwnFallback: r.OwnFallback, Policy: policy(r.Policy),
		})
	}
	return s, nil
}

var protocols = map[string]proxy.Protocol{
	"auto": proxy.ProtocolAuto, "http1": proxy.ProtocolHTTP1, "h2": proxy.ProtocolH2, "h2c": proxy.ProtocolH2C,
}

// certificates loads the files of an https upstream.
func certificates(d config.Dependency) (*proxy.Certificates, error) {
	if d.Upstream.Scheme != "https" {
		return nil, nil
	}
	t := d.TLS
	c, err := proxy.LoadCertificates(proxy.TLSOptions{
		CAFile: t.CAFile, CertFile: t.CertFile, KeyFile: t.KeyFile, ServerName: t.ServerName,
		MinVersion:         map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13}[t.MinVersion],
		InsecureSkipVerify: t.InsecureSkipVerify,
	})
	if err != nil {
		return nil, fmt.Errorf("dependency %s: %w", d.Name, err)
	}
	return c, nil
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

func bulkheadPolicy(b config.Bulkhead, ramp time.Duration) bulkhead.Policy {
	return bulkhead.Policy{
		MaxConcurrent: b.MaxConcurrent,
		MaxWaiting:    b.MaxWaiting,
		QueueTimeout:  b.QueueTimeout,
		Ramp:          ramp,
	}
}

// shadow puts what is proposed in the place of what is live. A proposed breaker
// is judged as one that enforces; where none is proposed, the live mode says
// whether a circuit refuses anybody.
func shadow(c config.Shadow, live *proxy.Settings) *proxy.Shadow {
	s := &proxy.Shadow{Breaker: live.Breaker, Bulkhead: live.Bulkhead}
	if c.Breaker != nil {
		s.Breaker = breakerPolicy(config.Breaker{Mode: "enforce", Rules: *c.Breaker})
		s.Bulkhead.Ramp = c.Breaker.Ramp
	}
	if c.Bulkhead != nil {
		s.Bulkhead = bulkheadPolicy(*c.Bulkhead, s.Bulkhead.Ramp)
	}
	return s
}

func policy(c config.Policy) proxy.Policy {
	p := proxy.Policy{
		Timeout:         c.Timeout,
		AttemptTimeout:  c.AttemptTimeout,
		ConnectTimeout:  c.ConnectTimeout,
		IdleTimeout:     c.IdleTimeout,
		MaxRequestBytes: c.MaxRequestBytes,
		Failure:         c.Failure.Statuses.Match,
		FailureGRPC:     c.Failure.MatchGRPC,
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
		return proxy.Fallback{Stale: &proxy.Stale{MaxAge: f.Stale.MaxAge, VaryBy: f.Stale.VaryBy}}
	}
	// Names go out as the operator wrote them.
	header := http.Header{}
	for name, value := range f.Static.Headers {
		header[name] = []string{value}
	}
	return proxy.Fallback{Static: &proxy.Static{Status: f.Static.Status, Header: header, Body: f.Static.Body}}
}
