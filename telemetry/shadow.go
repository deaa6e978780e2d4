package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"sidecar/proxy"
	"sidecar/resilience/breaker"
)

// shadowTotals are the counters of a dependency's proposed settings.
type shadowTotals struct {
	transitions             [len(states)]total
	wouldReject, wouldAdmit []total // beside proxy.Refusals
	admit, refuse           total
}

func newShadowTotals() *shadowTotals {
	return &shadowTotals{
		wouldReject: make([]total, len(proxy.Refusals)),
		wouldAdmit:  make([]total, len(proxy.Refusals)),
	}
}

// see brings the totals up to date and returns the series. A changed proposal
// counts from 0 again; the counters go on.
func (t *shadowTotals) see(name string, s *proxy.ShadowSnapshot) []prometheus.Metric {
	series := []prometheus.Metric{
		shadowBreakerState.at(float64(s.Breaker.State), name),
		shadowAgreedTotal.at(t.admit.see(float64(s.BothAdmit)), name, "admit"),
		shadowAgreedTotal.at(t.refuse.see(float64(s.BothRefuse)), name, "refuse"),
	}
	for i, to := range states {
		series = append(series, shadowTransitionsTotal.at(t.transitions[i].see(float64(s.Transitions[to])), name, to.String()))
	}
	for i, why := range proxy.Refusals {
		series = append(series,
			shadowWouldRejectTotal.at(t.wouldReject[i].see(float64(s.WouldReject[why])), name, string(why)),
			shadowWouldAdmitTotal.at(t.wouldAdmit[i].see(float64(s.WouldAdmit[why])), name, string(why)))
	}
	return series
}

// readShadow returns the series of a dependency's proposed settings: none
// without any, and then the counters begin at 0 the next time.
func (d *dependency) readShadow(s *proxy.Snapshot) []prometheus.Metric {
	if s == nil || s.Shadow == nil {
		d.shadow = nil
		return nil
	}
	if d.shadow == nil {
		d.shadow = newShadowTotals()
	}
	return d.shadow.see(d.name, s.Shadow)
}

// ShadowChanged implements [proxy.Observer]: a line in the log that cannot be
// taken for a change of the live circuit.
func (t *Telemetry) ShadowChanged(name string, tr breaker.Transition) {
	t.log.Info("shadow breaker changed, nothing is refused", transitionFields(name, &tr)...)
}

// transitionFields are the fields of a change of state.
func transitionFields(name string, tr *breaker.Transition) []zap.Field {
	fields := []zap.Field{
		zap.String("dependency", name),
		zap.Stringer("from", tr.From),
		zap.Stringer("to", tr.To),
		zap.String("reason", tr.Reason),
		zap.Time("at", tr.At),
	}
	if !tr.OpenUntil.IsZero() {
		fields = append(fields, zap.Time("open_until", tr.OpenUntil))
	}
	return fields
}
