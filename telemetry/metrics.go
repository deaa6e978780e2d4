package telemetry

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// MetricInfo describes a metric as a reader of /metrics sees it.
type MetricInfo struct {
	Name   string
	Type   string // counter, gauge or histogram
	Labels []string
	Help   string
}

// AgeBuckets are the upper bounds of the buckets of copies' ages, in seconds.
var AgeBuckets = []float64{1, 5, 15, 60, 300, 900, 3600, 21600, 86400}

// Buckets are the upper bounds of every other histogram's buckets, in seconds.
var Buckets = []float64{
	0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30,
}

// Describe lists every metric of the sidecar's own, in the order of the
// documentation. The Go runtime's and the process's are not among them.
func Describe() []MetricInfo {
	infos := make([]MetricInfo, len(families))
	for i, f := range families {
		infos[i] = f.MetricInfo
		infos[i].Labels = slices.Clone(f.Labels)
	}
	return infos
}

// families are all metrics; the constructors below fill it in the order of
// declaration.
var families []*family

var (
	requestsTotal = newFamily("counter", "sidecar_requests_total",
		"Calls by outcome; the sum is every call.", "dependency", "outcome")
	requestSeconds = newFamily("histogram", "sidecar_request_duration_seconds",
		"Time from a call's arrival to its last byte; without streams and upgrades.", "dependency")
	attemptsTotal = newFamily("counter", "sidecar_attempts_total",
		"Requests that the upstream could have seen, and those that a drill kept from it, by result.", "dependency", "result")
	attemptSeconds = newFamily("histogram", "sidecar_attempt_duration_seconds",
		"Time from an attempt's start to its response headers, or to its end without any.", "dependency")
	rejectionsTotal = newFamily("counter", "sidecar_rejections_total",
		"Calls refused before anything was sent, those answered by a fallback included.", "dependency", "reason")
	fallbacksTotal = newFamily("counter", "sidecar_fallbacks_total",
		"Calls answered by a fallback, by its source and the reason why.", "dependency", "source", "reason")
	staleAgeSeconds = newFamily("histogram", "sidecar_stale_age_seconds",
		"Ages of the stale copies that answered calls (RFC 9111 §4.2.3).", "dependency")
	retriesTotal = newFamily("counter", "sidecar_retries_total",
		"Attempts beyond a call's first.", "dependency")
	retriesDeniedTotal = newFamily("counter", "sidecar_retries_denied_total",
		"Calls whose policy wanted a retry that was not made, by why.", "dependency", "reason")

	breakerState = newFamily("gauge", "sidecar_breaker_state",
		"State of the circuit: 0 closed, 1 half-open, 2 open.", "dependency")
	breakerTransitionsTotal = newFamily("counter", "sidecar_breaker_transitions_total",
		"Changes of the circuit's state, by the new state.", "dependency", "to")
	breakerOpenSecondsTotal = newFamily("counter", "sidecar_breaker_open_seconds_total",
		"Time that the circuit has spent open.", "dependency")
	breakerWouldRejectTotal = newFamily("counter", "sidecar_breaker_would_reject_total",
		"Attempts that an enforcing breaker would have refused in observe mode.", "dependency")

	bulkheadInUse = newFamily("gauge", "sidecar_bulkhead_in_use",
		"Permits held by running calls.", "dependency")
	bulkheadLimit = newFamily("gauge", "sidecar_bulkhead_limit",
		"Calls that may run at present; below max_concurrent during a ramp.", "dependency")
	bulkheadWaiting = newFamily("gauge", "sidecar_bulkhead_waiting",
		"Calls that wait for a permit.", "dependency")
	bulkheadOldestWait = newFamily("gauge", "sidecar_bulkhead_oldest_wait_seconds",
		"How long the first call in the queue has waited; 0 if none waits.", "dependency")
	bulkheadWaitSeconds = newFamily("histogram", "sidecar_bulkhead_wait_seconds",
		"Time that calls spent in the queue; only those that had to wait.", "dependency")

	shadowBreakerState = newFamily("gauge", "sidecar_shadow_breaker_state",
		"State that the circuit would have under the proposed settings: 0 closed, 1 half-open, 2 open.", "dependency")
	shadowTransitionsTotal = newFamily("counter", "sidecar_shadow_breaker_transitions_total",
		"Changes of the state that the circuit would have had, by the new state.", "dependency", "to")
	shadowWouldRejectTotal = newFamily("counter", "sidecar_shadow_would_reject_total",
		"Calls that ran and that the proposed settings would have refused, by why.", "dependency", "reason")
	shadowWouldAdmitTotal = newFamily("counter", "sidecar_shadow_would_admit_total",
		"Calls that were refused and that the proposed settings would have let run, by why they were refused.", "dependency", "reason")
	shadowAgreedTotal = newFamily("counter", "sidecar_shadow_agreed_total",
		"Calls on which the live and the proposed settings decided alike.", "dependency", "decision")

	drillActive = newFamily("gauge", "sidecar_drill_active",
		"Whether a fire drill runs: 1 or 0.", "dependency")
	drillInjectedTotal = newFamily("counter", "sidecar_drill_injected_total",
		"Attempts that met a fire drill, by the fault it injected.", "dependency", "fault")
	drillWithheldTotal = newFamily("counter", "sidecar_drill_withheld_total",
		"Attempts that a fire drill kept from the upstream: true requests are sidecar_attempts_total less these.", "dependency")

	cacheBytes = newFamily("gauge", "sidecar_cache_bytes",
		"Size of the stored copies.")
	cacheEntries = newFamily("gauge", "sidecar_cache_entries",
		"Number of stored copies.")
	cacheEvictionsTotal = newFamily("counter", "sidecar_cache_evictions_total",
		"Copies removed to make room.")
	cacheStoresTotal = newFamily("counter", "sidecar_cache_stores_total",
		"Answers stored as copies.")
	cacheSkipsTotal = newFamily("counter", "sidecar_cache_skips_total",
		"Answers that were not stored, by why.", "reason")

	reloadSuccessful = newFamily("gauge", "sidecar_config_last_reload_successful",
		"Whether the last attempt to load the configuration succeeded: 1 or 0.")
	reloadTimestamp = newFamily("gauge", "sidecar_config_last_reload_success_timestamp_seconds",
		"When the running configuration was loaded, in Unix time.")
	reloadsTotal = newFamily("counter", "sidecar_config_reloads_total",
		"Reloads of the configuration by result; the start is none.", "result")

	buildInfo = newFamily("gauge", "sidecar_build_info",
		"Always 1; the labels tell what is running.", "version", "revision", "goversion")
)

// family is a metric with all its series.
type family struct {
	MetricInfo
	desc *prometheus.Desc
	kind prometheus.ValueType // of a counter or gauge
}

// newFamily declares a metric.
func newFamily(kind, name, help string, labels ...string) *family {
	f := &family{
		MetricInfo: MetricInfo{Name: name, Type: kind, Labels: labels, Help: help},
		desc:       prometheus.NewDesc(name, help, labels, nil),
		kind:       prometheus.CounterValue,
	}
	if kind == "gauge" {
		f.kind = prometheus.GaugeValue
	}
	families = append(families, f)
	return f
}

// at makes one series' present value. The number of labels is fixed by the
// code, so it cannot fail.
func (f *family) at(value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(f.desc, f.kind, value, labels...)
}

// histogram makes the collector of a histogram family.
func (f *family) histogram(buckets []float64) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: f.Name, Help: f.Help, Buckets: buckets,
	}, f.Labels)
}
