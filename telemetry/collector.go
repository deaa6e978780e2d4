package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"sidecar/proxy"
	"sidecar/stale"
)

// collector makes the counters and gauges at each scrape: counters of what the
// Observer heard, gauges of the source's snapshots.
type collector Telemetry

// Describe implements [prometheus.Collector].
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range families {
		if f.Type != "histogram" {
			ch <- f.desc
		}
	}
}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	t := (*Telemetry)(c)
	readings, store := t.read()
	for _, r := range readings {
		r.collect(ch)
	}
	store.collect(ch)
	t.reloads.collect(ch)
	ch <- buildInfo.at(1, t.build[:]...)
}

// reading is what a scrape knows of one dependency.
type reading struct {
	*dependency
	snapshot                 *proxy.Snapshot // nil if the source has none
	openSeconds, wouldReject float64
	shadow                   []prometheus.Metric
}

// storeReading is what a scrape knows of the store of stale copies.
type storeReading struct {
	stale.Snapshot
	stores, evictions float64
	skips             []float64 // beside stale.SkipNames
}

// cacheTotals are the store's counters.
type cacheTotals struct {
	stores, evictions total
	skips             []total // beside stale.SkipNames
}

func newCacheTotals() cacheTotals {
	return cacheTotals{skips: make([]total, len(stale.SkipNames))}
}

// read takes the snapshots and brings the totals up to date. One scrape does so
// at a time: with two at once, an older reading seen after a newer one would
// look as if the count had begun again.
func (t *Telemetry) read() ([]reading, storeReading) {
	t.scraping.Lock()
	defer t.scraping.Unlock()
	snapshots := map[string]*proxy.Snapshot{}
	var store stale.Snapshot
	if source := t.source.Load(); source != nil {
		for _, s := range (*source).Snapshots() {
			snapshots[s.Name] = &s
		}
		store = (*source).Store()
	}
	dependencies := *t.dependencies.Load()
	readings := make([]reading, 0, len(dependencies))
	for name, d := range dependencies {
		readings = append(readings, d.read(snapshots[name]))
	}
	return readings, t.cache.read(store)
}

// read brings a dependency's totals up to date.
func (d *dependency) read(s *proxy.Snapshot) reading {
	if s != nil {
		d.openSeconds.see(s.Breaker.OpenTime.Seconds())
		d.wouldReject.see(float64(s.Breaker.WouldReject))
	}
	return reading{d, s, d.openSeconds.value(), d.wouldReject.value(), d.readShadow(s)}
}

// read brings the store's totals up to date.
func (c *cacheTotals) read(s stale.Snapshot) storeReading {
	r := storeReading{
		Snapshot:  s,
		stores:    c.stores.see(float64(s.Stores)),
		evictions: c.evictions.see(float64(s.Evictions)),
	}
	for i, reason := range stale.SkipNames {
		r.skips = append(r.skips, c.skips[i].see(float64(s.Skips[reason])))
	}
	return r
}

// collect sends the series of one dependency.
func (r *reading) collect(ch chan<- prometheus.Metric) {
	r.dependency.collect(ch)
	ch <- breakerOpenSecondsTotal.at(r.openSeconds, r.name)
	ch <- breakerWouldRejectTotal.at(r.wouldReject, r.name)
	for _, m := range r.shadow {
		ch <- m
	}
	if r.snapshot == nil {
		return
	}
	b := &r.snapshot.Bulkhead
	ch <- breakerState.at(float64(r.snapshot.Breaker.State), r.name)
	ch <- bulkheadInUse.at(float64(b.InUse), r.name)
	ch <- bulkheadLimit.at(float64(b.Limit), r.name)
	ch <- bulkheadWaiting.at(float64(b.Waiting), r.name)
	ch <- bulkheadOldestWait.at(b.OldestWait.Seconds(), r.name)
	ch <- drillActive.at(active(r.snapshot.Drill), r.name)
}

// collect sends the series of the store.
func (r *storeReading) collect(ch chan<- prometheus.Metric) {
	ch <- cacheBytes.at(float64(r.Bytes))
	ch <- cacheEntries.at(float64(r.Entries))
	ch <- cacheStoresTotal.at(r.stores)
	ch <- cacheEvictionsTotal.at(r.evictions)
	for i, reason := range stale.SkipNames {
		ch <- cacheSkipsTotal.at(r.skips[i], reason)
	}
}
