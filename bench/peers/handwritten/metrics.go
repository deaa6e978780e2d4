package main

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics count calls as promhttp's examples do.
type metrics struct {
	registry *prometheus.Registry
	calls    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	inFlight *prometheus.GaugeVec
}

func newMetrics() *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "proxy_requests_total", Help: "Calls by status.",
		}, []string{"upstream", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "proxy_request_duration_seconds", Help: "Time of calls.",
		}, []string{"upstream", "code"}),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "proxy_requests_in_flight", Help: "Calls that have not ended.",
		}, []string{"upstream"}),
	}
	m.registry.MustRegister(m.calls, m.duration, m.inFlight)
	return m
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// measure wraps a handler in the usual three instruments.
func (m *metrics) measure(upstream string, next http.Handler) http.Handler {
	label := prometheus.Labels{"upstream": upstream}
	counted := promhttp.InstrumentHandlerCounter(m.calls.MustCurryWith(label), next)
	timed := promhttp.InstrumentHandlerDuration(m.duration.MustCurryWith(label), counted)
	return promhttp.InstrumentHandlerInFlight(m.inFlight.With(label), timed)
}
