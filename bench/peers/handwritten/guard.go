package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httputil"
	"time"

	"github.com/sony/gobreaker/v2"
	"golang.org/x/sync/semaphore"

	"sidecar/bench/peers/route"
)

var errStatus = errors.New("the upstream answered with a failure")

// guard protects one upstream.
type guard struct {
	settings
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]
	turns   *semaphore.Weighted
	proxy   *httputil.ReverseProxy
}

func newGuard(upstream string, s settings) *guard {
	transport := route.Transport()
	transport.ResponseHeaderTimeout = s.timeout
	return &guard{
		settings: s,
		turns:    semaphore.NewWeighted(s.limit),
		proxy:    route.Proxy(upstream, transport),
		breaker: gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
			Name:     upstream,
			Interval: 10 * time.Second,
			Timeout:  10 * time.Minute,
			ReadyToTrip: func(c gobreaker.Counts) bool {
				return c.Requests >= 5 && 2*c.TotalFailures >= c.Requests
			},
		}),
	}
}

// ServeHTTP asks the breaker, waits for a turn and passes the call on.
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	done, err := g.breaker.Allow()
	if err != nil {
		g.refuse(w)
		return
	}
	status := http.StatusInternalServerError
	defer func() { done(verdict(status)) }()

	waiting, cancel := context.WithTimeout(r.Context(), g.wait)
	err = g.turns.Acquire(waiting, 1)
	cancel()
	if err != nil {
		status = http.StatusOK // no news of the upstream
		http.Error(w, "too many calls", http.StatusServiceUnavailable)
		return
	}
	defer g.turns.Release(1)

	ctx, cancel := context.WithTimeout(r.Context(), g.timeout)
	defer cancel()
	seen := &statusWriter{ResponseWriter: w, status: http.StatusOK}
	g.proxy.ServeHTTP(seen, r.WithContext(ctx))
	status = seen.status
}

// refuse answers while the circuit is open.
func (g *guard) refuse(w http.ResponseWriter) {
	if g.static == nil {
		http.Error(w, "the circuit is open", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = w.Write(g.static)
}

func verdict(status int) error {
	if status >= http.StatusInternalServerError {
		return errStatus
	}
	return nil
}

// statusWriter remembers the status.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader notes the status and passes it on.
func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController find Flush.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
