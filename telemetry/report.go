package telemetry

import (
	"cmp"
	"context"
	"slices"
	"time"

	"go.uber.org/zap"

	"sidecar/proxy"
)

// SetReportInterval sets how often Report writes, from now on; at 0 or below
// it writes nothing.
func (t *Telemetry) SetReportInterval(every time.Duration) {
	if t.reportEvery.Swap(int64(every)) == int64(every) {
		return
	}
	select {
	case t.reportChanged <- struct{}{}:
	default: // Report has not seen the last change yet, and will see this one.
	}
}

// Report writes one line per dependency at each report interval until ctx
// ends: its state, the calls that ended since its last line, how many of them
// failed, were refused (those answered by a fallback too) and were answered by
// a fallback, and the permits in use at present. The first line of a
// dependency counts from when it was added. Run it once.
func (t *Telemetry) Report(ctx context.Context) {
	last := map[*dependency]reported{}
	for t.reportUntilChanged(ctx, last) {
	}
}

// reportUntilChanged reports at one interval. It returns false when ctx ends,
// true when the interval was changed.
func (t *Telemetry) reportUntilChanged(ctx context.Context, last map[*dependency]reported) bool {
	var ticks <-chan time.Time // none at an interval of 0
	if every := time.Duration(t.reportEvery.Load()); every > 0 {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		ticks = ticker.C
	}
	for {
		select {
		case <-ctx.Done():
			return false
		case <-t.reportChanged:
			return true
		case <-ticks:
			t.report(last)
		}
	}
}

// reported are the counts at a dependency's last line.
type reported struct{ calls, failed, refused, fallback uint64 }

// report writes a line for each dependency, by name, and forgets those that
// are gone.
func (t *Telemetry) report(last map[*dependency]reported) {
	snapshots := map[string]proxy.Snapshot{}
	if source := t.source.Load(); source != nil {
		for _, s := range (*source).Snapshots() {
			snapshots[s.Name] = s
		}
	}
	dependencies := *t.dependencies.Load()
	for d := range last {
		if dependencies[d.name] != d {
			delete(last, d)
		}
	}
	sorted := make([]*dependency, 0, len(dependencies))
	for _, d := range dependencies {
		sorted = append(sorted, d)
	}
	slices.SortFunc(sorted, func(a, b *dependency) int { return cmp.Compare(a.name, b.name) })
	for _, d := range sorted {
		now, before := d.reported(), last[d]
		last[d] = now
		fields := []zap.Field{
			zap.String("dependency", d.name),
			zap.Uint64("calls", now.calls-before.calls),
			zap.Uint64("failed", now.failed-before.failed),
			zap.Uint64("refused", now.refused-before.refused),
			zap.Uint64("fallback", now.fallback-before.fallback),
		}
		if s, ok := snapshots[d.name]; ok {
			fields = append(fields, zap.Stringer("state", s.Breaker.State), zap.Int("in_use", s.Bulkhead.InUse))
		}
		t.log.Info("report", fields...)
	}
}

// reported returns the present counts.
func (d *dependency) reported() reported {
	return reported{
		calls:    d.requests.sum(),
		failed:   d.requests.get(proxy.OutcomeFailed),
		refused:  d.rejections.sum(),
		fallback: d.requests.get(proxy.OutcomeFallback),
	}
}
