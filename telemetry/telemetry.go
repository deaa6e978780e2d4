package telemetry

import (
	"maps"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"sidecar/proxy"
	"sidecar/resilience/breaker"
	"sidecar/stale"
)

// Options are what a Telemetry is made of.
type Options struct {
	Log      *zap.Logger // nil = no log
	Access   Access      // which calls are logged; see SetAccess
	Version  string      // of the program, for sidecar_build_info
	Revision string      // of its source
	LoadedAt time.Time   // when the running configuration was loaded; zero = now
}

// Source gives the state that is read at each scrape. It is called by one
// scrape at a time.
type Source interface {
	// Snapshots returns the running dependencies. Those that were not added to
	// the Telemetry are passed over.
	Snapshots() []proxy.Snapshot
	// Store returns the state of the stale copies; the zero value if there is
	// no store.
	Store() stale.Snapshot
}

// Telemetry counts, measures and logs what the proxy tells it: it is a
// [proxy.Observer]. It is safe for concurrent use. Build it with [New].
type Telemetry struct {
	log      *zap.Logger
	access   atomic.Int32 // an Access
	registry *prometheus.Registry
	events   Events
	reloads  reloads
	started  time.Time // the zero of the latency windows' clock
	build    [3]string // label values of sidecar_build_info

	reportEvery   atomic.Int64 // a time.Duration
	reportChanged chan struct{}

	requestSeconds, attemptSeconds, waitSeconds, staleAge *prometheus.HistogramVec

	// dependencies is replaced as a whole, so that an event finds its handle
	// without a lock.
	dependencies atomic.Pointer[map[string]*dependency]
	changing     sync.Mutex // serialises Add and Remove

	source   atomic.Pointer[Source]
	scraping sync.Mutex // guards the totals, here and in each dependency
	cache    cacheTotals
}

// New returns a Telemetry without dependencies and without a source. It has a
// registry of its own, with the collectors of the Go runtime and of the
// process beside the sidecar's metrics.
func New(o Options) *Telemetry {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.LoadedAt.IsZero() {
		o.LoadedAt = time.Now()
	}
	t := &Telemetry{
		log:            o.Log,
		registry:       prometheus.NewRegistry(),
		started:        time.Now(),
		build:          [3]string{o.Version, o.Revision, runtime.Version()},
		reportChanged:  make(chan struct{}, 1),
		requestSeconds: requestSeconds.histogram(Buckets),
		attemptSeconds: attemptSeconds.histogram(Buckets),
		waitSeconds:    bulkheadWaitSeconds.histogram(Buckets),
		staleAge:       staleAgeSeconds.histogram(AgeBuckets),
		cache:          newCacheTotals(),
	}
	t.dependencies.Store(&map[string]*dependency{})
	t.reloads.last.Store(&reload{at: o.LoadedAt})
	t.reloads.loadedAt.Store(o.LoadedAt.UnixNano())
	t.SetAccess(o.Access)
	t.registry.MustRegister(
		t.requestSeconds, t.attemptSeconds, t.waitSeconds, t.staleAge, (*collector)(t),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return t
}

// Registry returns the registry that holds all metrics.
func (t *Telemetry) Registry() *prometheus.Registry { return t.registry }

// Handler answers scrapes. What can be gathered is served even if a part fails.
func (t *Telemetry) Handler() http.Handler {
	return promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError,
		ErrorLog:      zap.NewStdLog(t.log),
	})
}

// Events returns the feed of transitions, drills and reloads.
func (t *Telemetry) Events() *Events { return &t.events }

// SetSource gives the state that scrapes read. Without one, what is read from
// snapshots is missing, apart from counters, which stand at 0.
func (t *Telemetry) SetSource(s Source) { t.source.Store(&s) }

// Add makes the series of a dependency, all at 0. A name that is there already
// stays as it is.
func (t *Telemetry) Add(name string) {
	t.changing.Lock()
	defer t.changing.Unlock()
	old := *t.dependencies.Load()
	if old[name] != nil {
		return
	}
	d := newDependency(name)
	d.requestSeconds = t.requestSeconds.WithLabelValues(name)
	d.attemptSeconds = t.attemptSeconds.WithLabelValues(name)
	d.waitSeconds = t.waitSeconds.WithLabelValues(name)
	d.staleAge = t.staleAge.WithLabelValues(name)
	next := maps.Clone(old)
	next[name] = d
	t.dependencies.Store(&next)
}

// Remove takes the series of a dependency away. Its calls that end later are
// still logged, but no longer counted, unless the name was added again.
func (t *Telemetry) Remove(name string) {
	t.changing.Lock()
	defer t.changing.Unlock()
	next := maps.Clone(*t.dependencies.Load())
	delete(next, name)
	t.dependencies.Store(&next)
	t.requestSeconds.DeleteLabelValues(name)
	t.attemptSeconds.DeleteLabelValues(name)
	t.waitSeconds.DeleteLabelValues(name)
	t.staleAge.DeleteLabelValues(name)
}

// find returns the handles of a dependency, nil for one that was not added.
func (t *Telemetry) find(name string) *dependency { return (*t.dependencies.Load())[name] }

// CallDone implements [proxy.Observer].
func (t *Telemetry) CallDone(c proxy.Call) {
	if d := t.find(c.Dependency); d != nil {
		d.callDone(&c, time.Since(t.started))
	}
	if t.wanted(&c) {
		t.logCall(&c)
	}
}

// AttemptDone implements [proxy.Observer].
func (t *Telemetry) AttemptDone(a proxy.Attempt) {
	if d := t.find(a.Dependency); d != nil {
		d.attemptDone(&a)
	}
}

// BreakerChanged implements [proxy.Observer].
func (t *Telemetry) BreakerChanged(name string, tr breaker.Transition) {
	if d := t.find(name); d != nil {
		d.breakerChanged(tr.To)
	}
	t.logTransition(name, &tr)
	t.events.transition(name, &tr)
}

// Fallbacks returns how many calls a dependency's fallbacks have answered, by
// source, and the age of the copy that was served last; false if none was.
func (t *Telemetry) Fallbacks(name string) (served map[proxy.Source]uint64, age time.Duration, ok bool) {
	d := t.find(name)
	if d == nil {
		return nil, 0, false
	}
	served = make(map[proxy.Source]uint64, len(proxy.Sources))
	for i, source := range proxy.Sources {
		served[source] = d.fallbacks[i].sum()
	}
	last := d.lastStale.Load()
	return served, time.Duration(max(0, last-1)), last > 0
}

// Counts returns a dependency's calls by outcome since it was added; nil for
// one that was not.
func (t *Telemetry) Counts(name string) map[proxy.Outcome]uint64 {
	d := t.find(name)
	if d == nil {
		return nil
	}
	counts := make(map[proxy.Outcome]uint64, len(d.requests.words))
	for i, outcome := range d.requests.words {
		counts[outcome] = d.requests.counts[i].Load()
	}
	return counts
}

// Latency returns the median and the 99th percentile of the calls that ended
// in the last 60 to 70 s, refused ones included, streams and upgrades not. Each
// is at most 3.2 % off. It returns false if there were no such calls.
func (t *Telemetry) Latency(name string) (p50, p99 time.Duration, ok bool) {
	d := t.find(name)
	if d == nil {
		return 0, 0, false
	}
	q, ok := d.latency.quantiles(time.Since(t.started), 0.50, 0.99)
	if !ok {
		return 0, 0, false
	}
	return q[0], q[1], true
}
