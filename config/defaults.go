package config

import (
	"reflect"
	"time"
)

const (
	kib = 1 << 10
	mib = 1 << 20

	// unset marks an attempt_timeout that no level has set, while decoding.
	unset time.Duration = -1
)

// Default returns the configuration of a file that sets nothing.
func Default() *Config {
	return &Config{
		Admin:    Admin{Listen: "127.0.0.1:9900"},
		Metrics:  Metrics{Listen: "127.0.0.1:9901"},
		Log:      Log{Level: "info", Format: "json", Access: "degraded"},
		Shutdown: Shutdown{DrainTimeout: 25 * time.Second},
		Cache:    Cache{MaxBytes: 64 * mib, MaxObjectBytes: mib},
	}
}

// DefaultDependency returns the settings of a dependency for which neither it
// nor the file's "defaults" sets anything; name, listen and upstream are empty.
func DefaultDependency() Dependency {
	d := builtin()
	d.resolve()
	return d
}

// builtin is DefaultDependency before attempt_timeout is resolved.
func builtin() Dependency {
	return Dependency{
		Protocol: "auto",
		TLS:      TLS{MinVersion: "1.2"},
		Policy: Policy{
			Timeout:        10 * time.Second,
			AttemptTimeout: unset,
			ConnectTimeout: time.Second,
			IdleTimeout:    time.Minute,
			Failure: Failure{
				Statuses:     Statuses{{Low: 500, High: 599}, {Low: 501, High: 501, Not: true}, {Low: 505, High: 505, Not: true}},
				GRPCStatuses: []string{"UNAVAILABLE", "DEADLINE_EXCEEDED", "INTERNAL", "DATA_LOSS", "UNKNOWN"},
			},
			Retry: Retry{
				On:           []string{"connect", "reset", "timeout", "502", "503", "504"},
				Backoff:      RetryBackoff{Base: 25 * time.Millisecond, Max: 250 * time.Millisecond},
				Budget:       Budget{Ratio: 0.2, MinPerSecond: 3},
				MaxBodyBytes: 64 * kib,
			},
		},
		Breaker: Breaker{
			Mode: "enforce",
			Rules: Rules{
				Window:       Window{Calls: 20},
				MinCalls:     5,
				FailureRatio: 0.5,
				Cooldown:     30 * time.Second,
				Backoff:      Backoff{Factor: 1, Max: 5 * time.Minute},
				Jitter:       0.1,
				Probes:       1,
				Ramp:         10 * time.Second,
			},
		},
		Bulkhead: Bulkhead{MaxConcurrent: 20, MaxWaiting: 10, QueueTimeout: 250 * time.Millisecond},
	}
}

// DefaultSlowCall returns the values of an empty "slow_call" mapping: what its
// keys start from once it is present.
func DefaultSlowCall() SlowCall { return SlowCall{After: time.Second, Ratio: 0.8} }

// DefaultStale returns the values of an empty "stale" mapping.
func DefaultStale() Stale { return Stale{MaxAge: 10 * time.Minute} }

// DefaultStatic returns the values of an empty "static" mapping.
func DefaultStatic() Static { return Static{Status: 200} }

// prefilled returns a new optional mapping with its defaults, and whether it has
// any.
func prefilled(t reflect.Type) (fresh reflect.Value, ok bool) {
	fresh = reflect.New(t)
	switch p := fresh.Interface().(type) {
	case *SlowCall:
		*p = DefaultSlowCall()
	case *Stale:
		*p = DefaultStale()
	case *Static:
		*p = DefaultStatic()
	default:
		return fresh, false
	}
	return fresh, true
}

// resolve gives every level its own attempt_timeout and drops rules that are
// switched off.
func (d *Dependency) resolve() {
	d.Policy.resolve()
	for i := range d.Routes {
		d.Routes[i].resolve()
	}
	if d.Breaker.SlowCall != nil && d.Breaker.SlowCall.Ratio == 0 {
		d.Breaker.SlowCall = nil
	}
}

func (p *Policy) resolve() {
	if p.AttemptTimeout == unset {
		p.AttemptTimeout = p.Timeout
	}
}
