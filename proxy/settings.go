package proxy

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"sidecar/resilience/breaker"
	"sidecar/resilience/bulkhead"
	"sidecar/resilience/retry"
)

// Settings is everything that an operator chose for one dependency. It is
// immutable once given to [New] or [Dependency.Update].
type Settings struct {
	Upstream     *url.URL // absolute; userinfo is sent as Basic authorization
	PreserveHost bool     // send the caller's Host instead of the upstream's
	Protocol     Protocol
	TLS          *Certificates     // for https upstreams; nil for the system's roots
	Transport    http.RoundTripper // sends the attempts; nil for connections of the dependency's own
	Breaker      breaker.Policy
	Bulkhead     bulkhead.Policy
	Shadow       *Shadow // proposed settings, judged beside the live ones; nil = none
	Policy               // where no route matches
	Routes       []Route // first match wins
}

// Policy is what a route can set for itself. Durations of zero mean no bound.
type Policy struct {
	Timeout         time.Duration         // the whole call: waiting, attempts, backoff and body
	AttemptTimeout  time.Duration         // one attempt, from its request body sent to its response headers
	ConnectTimeout  time.Duration         // name look-up and TCP connect; TLS handshake again as much
	IdleTimeout     time.Duration         // longest silence of an event stream or upgraded connection
	MaxRequestBytes int64                 // a larger request body is refused with 413; 0 = no limit
	Failure         func(status int) bool // of an HTTP response
	FailureGRPC     func(code int) bool   // of a gRPC response; nil = none
	Retry           Retry
	Fallback        []Fallback // tried in order; the first that can answer does
}

// Retry says which failed attempts are made again.
type Retry struct {
	MaxRetries   int
	OnReason     []Reason              // connect, reset, timeout
	OnStatus     func(status int) bool // nil = none
	Backoff      retry.Backoff         // full jitter
	Budget       retry.BudgetPolicy    // shared by all calls of the dependency
	MaxBodyBytes int64                 // a larger request body is not replayed
}

// Fallback is one way to answer without the upstream: exactly one field is
// set.
type Fallback struct {
	Stale  *Stale
	Static *Static
}

// Stale answers with the copy of an earlier answer.
type Stale struct {
	MaxAge time.Duration // no copy older than this, counted as RFC 9111 §4.2.3 does
	VaryBy []string      // request headers that key copies beside Vary; canonical names
}

// Static answers with a fixed body.
type Static struct {
	Status int // 200–599
	Header http.Header
	Body   []byte
}

// Route gives the calls that match it a policy of their own.
type Route struct {
	Methods     []string // empty = any
	Path        string   // the whole path; empty = any
	PathPrefix  string   // its beginning; empty = any
	OwnFallback bool     // the fallback stands on this route, so it answers the route's methods
	Policy
}

// match returns the policy for a request, and the route that gave it, nil for
// the dependency's own. Paths are compared as the caller sent them, still
// escaped: what the upstream will see is what is matched.
func (s *Settings) match(method, path string) (*Policy, *Route) {
	for i := range s.Routes {
		r := &s.Routes[i]
		if len(r.Methods) > 0 && !slices.Contains(r.Methods, method) {
			continue
		}
		if r.Path != "" && path != r.Path {
			continue
		}
		if strings.HasPrefix(path, r.PathPrefix) {
			return &r.Policy, r
		}
	}
	return &s.Policy, nil
}

// mayDegrade reports whether a fallback may answer this method: GET and HEAD
// always, others only where the fallback stands on a route that names them. An
// answer to a write must never be made up unless an operator said so.
func mayDegrade(method string, r *Route) bool {
	if method == http.MethodGet || method == http.MethodHead {
		return true
	}
	return r != nil && r.OwnFallback && slices.Contains(r.Methods, method)
}

// sameUpstream reports whether two settings can share one breaker: both speak to
// the same upstream in the same way.
func (s *Settings) sameUpstream(o *Settings) bool {
	return s.Upstream.String() == o.Upstream.String() && s.Protocol == o.Protocol && s.TLS.same(o.TLS)
}
