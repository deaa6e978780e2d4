package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"time"

	"sidecar/bench/peers/route"
	"sidecar/proxy"
	"sidecar/resilience/breaker"
	"sidecar/resilience/bulkhead"
	"sidecar/resilience/retry"
)

// pipelineRows are a whole call, without network and without net/http's server
// and client: request in, 1 KiB of answer out.
func pipelineRows() []row {
	return []row{{
		"whole call, no network",
		"GET with 1 KiB of answer from a transport that does nothing, through every stage of the sidecar and " +
			"through a bare httputil.ReverseProxy, which has none. Request, answer and the writer are made anew in both.",
		[]entry{
			{who: "sidecar", ours: true, make: func() func(int) { return through(dependency()) }},
			{who: "bare ReverseProxy", aside: true, make: func() func(int) {
				return through(route.Proxy("upstream.internal", idle{}))
			}},
		},
	}}
}

// dependency is set up as by default: each stage is on.
func dependency() http.Handler {
	return proxy.New("payments", &proxy.Settings{
		Upstream:  &url.URL{Scheme: "http", Host: "upstream.internal"},
		Transport: idle{},
		Breaker: breaker.Policy{
			Window: breaker.Window{Calls: windowCalls}, MinCalls: windowCalls, FailureRatio: ratio,
			ConsecutiveFailures: 5, Cooldown: 10 * time.Second, Probes: 3,
		},
		Bulkhead: bulkhead.Policy{MaxConcurrent: 100, MaxWaiting: 100, QueueTimeout: time.Second, Ramp: 10 * time.Second},
		Policy: proxy.Policy{
			Timeout: 10 * time.Second, AttemptTimeout: 5 * time.Second, ConnectTimeout: time.Second, IdleTimeout: time.Minute,
			Failure: func(status int) bool { return status >= 500 },
			Retry: proxy.Retry{
				MaxRetries: 2, OnReason: []proxy.Reason{proxy.ReasonConnect},
				Backoff: retry.Backoff{Base: 25 * time.Millisecond, Max: time.Second},
				Budget:  retry.BudgetPolicy{Ratio: 0.2, MinPerSecond: 10},
			},
		},
	}, nil, deaf{})
}

// through sends one request after another through a handler.
func through(h http.Handler) func(int) {
	template := httptest.NewRequest(http.MethodGet, "http://payments.internal/v1/charges?limit=10", http.NoBody)
	template.Header.Set("Accept", "application/json")
	template.Header.Set("User-Agent", "app/1.0")
	return func(int) {
		w := &writer{header: http.Header{}}
		h.ServeHTTP(w, template.WithContext(template.Context()))
		must(w.status == http.StatusOK && w.written == len(answer))
	}
}

var answer = bytes.Repeat([]byte("x"), 1<<10)

// idle answers every request with 1 KiB.
type idle struct{}

func (idle) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{
			"Content-Type":   {"application/json"},
			"Content-Length": {strconv.Itoa(len(answer))},
		},
		Body: io.NopCloser(bytes.NewReader(answer)), ContentLength: int64(len(answer)),
	}, nil
}

// writer counts what is written.
type writer struct {
	header  http.Header
	status  int
	written int
}

func (w *writer) Header() http.Header    { return w.header }
func (w *writer) WriteHeader(status int) { w.status = status }
func (w *writer) Flush()                 {}

func (w *writer) Write(p []byte) (int, error) {
	w.written += len(p)
	return len(p), nil
}

// deaf hears nothing.
type deaf struct{}

func (deaf) CallDone(proxy.Call)                       {}
func (deaf) AttemptDone(proxy.Attempt)                 {}
func (deaf) BreakerChanged(string, breaker.Transition) {}
func (deaf) ShadowChanged(string, breaker.Transition)  {}
func (deaf) DrillChanged(string, proxy.DrillChange)    {}
