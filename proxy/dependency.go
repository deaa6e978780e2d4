package proxy

import (
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"sidecar/resilience/breaker"
	"sidecar/resilience/bulkhead"
	"sidecar/resilience/retry"
	"sidecar/stale"
)

// flushInterval bounds how long a slow body of known length is held back.
// Streams and bodies of unknown length are flushed as they come.
const flushInterval = 5 * time.Millisecond

// never is how long ago the last call is said to have come before any has.
const never = 24 * 365 * time.Hour

// Dependency carries the calls to one downstream service through its breaker,
// bulkhead, deadline, retries and fallback. It is an [http.Handler], safe for
// concurrent use, and can be given new settings while calls run.
type Dependency struct {
	name                 string
	observer             Observer
	store                *stale.Store
	breaker              *breaker.Breaker
	bulkhead             *bulkhead.Bulkhead
	budget               *retry.Budget
	drills               drills
	problems             sync.Map // bodies of the sidecar's own answers, by trouble
	reverse, reverseGRPC httputil.ReverseProxy

	mu      sync.Mutex // serialises Update and Close
	current atomic.Pointer[runtime]

	created  time.Time
	inFlight atomic.Int64
	arrived  atomic.Int64 // when the last call came, in nanoseconds after created
}

// runtime is what a call reads once, at its arrival, and keeps to its end.
type runtime struct {
	settings *Settings
	pool     *pool
	target   *target
	shelf    *stale.Shelf // copies of this upstream's answers; nil without a store
	shadow   *shadow      // nil without a proposal
}

// New returns a dependency that is ready to serve. The store may be shared; it
// may be nil when no policy has a stale fallback. Close it when its last call
// has ended.
func New(name string, s *Settings, store *stale.Store, o Observer) *Dependency {
	d := &Dependency{name: name, observer: o, store: store, created: time.Now()}
	d.arrived.Store(int64(-never))
	d.breaker = breaker.New(time.Now(), s.Breaker, d.breakerChanged)
	d.bulkhead = bulkhead.New(s.Bulkhead)
	d.budget = retry.NewBudget(s.Retry.Budget)
	d.drills.prepare(func(c DrillChange) { o.DrillChanged(name, c) })
	reverse := httputil.ReverseProxy{
		Rewrite:        rewrite,
		Transport:      roundTripperFunc(attempts),
		ModifyResponse: modifyResponse,
		ErrorHandler:   handleError,
		FlushInterval:  flushInterval,
		BufferPool:     copyBuffers,
		// Every failure is told to the observer with its reason.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	d.reverse, d.reverseGRPC = reverse, reverse
	// A flush between the headers of a trailers-only answer and its end would
	// split what must be one block. Messages are flushed as they come anyway,
	// being of unknown length.
	d.reverseGRPC.FlushInterval = 0
	run := d.runs(s)
	run.shadow = newShadow(d, s.Shadow)
	d.current.Store(run)
	return d
}

// runs prepares to serve an upstream that has not been served before.
func (d *Dependency) runs(s *Settings) *runtime {
	r := &runtime{settings: s, pool: newPool(s), target: newTarget(s.Upstream), shelf: d.store.Shelf(d.name, s.Upstream.String())}
	r.shelf.Want(s.usesCopies())
	return r
}

// Update gives the dependency new settings, for the calls that arrive from now
// on. Limits and thresholds take hold in place; a changed upstream gets a new
// connection pool, a fresh breaker, none of the old one's copies and no drill.
// Changed authorities end the trust in connections made before: a new pool, and
// nothing else. Calls in flight end under the settings they began with.
func (d *Dependency) Update(s *Settings) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	old := d.current.Load()
	next := &runtime{settings: s, pool: old.pool, target: old.target, shelf: old.shelf}
	moved := !s.sameUpstream(old.settings)
	switch {
	case moved:
		next = d.runs(s)
	case !s.TLS.trustsAs(old.settings.TLS):
		next.pool = newPool(s)
	}
	next.shadow = old.shadow.next(d, s.Shadow, moved)
	d.current.Store(next)
	next.shelf.Want(s.usesCopies())
	d.breaker.SetPolicy(now, s.Breaker)
	d.bulkhead.SetPolicy(now, s.Bulkhead)
	d.budget.SetPolicy(s.Retry.Budget)
	if moved {
		d.drills.stop(DrillMoved)
		d.breaker.Reset(now)
		old.shelf.Close()
	}
	if next.pool != old.pool {
		old.pool.retire()
	}
}

// Close ends a drill and lets idle connections go, and the copies. Calls still
// in flight keep their connections to their end.
func (d *Dependency) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drills.stop(DrillShutdown)
	now := d.current.Load()
	now.pool.retire()
	now.shelf.Close()
}

// reverseFor returns the ReverseProxy for a request.
func (d *Dependency) reverseFor(r *http.Request) *httputil.ReverseProxy {
	if isGRPC(r.Header) {
		return &d.reverseGRPC
	}
	return &d.reverse
}

// breakerChanged is the breaker's notice of a change, given with no lock held.
// When the circuit opens, whoever still waits for a permit is answered at
// once: while a dependency is sick, waiting helps nobody. A breaker that only
// observes refuses nobody, unless an operator forced it open, in which case no
// end is known.
func (d *Dependency) breakerChanged(t breaker.Transition) {
	observes := d.current.Load().settings.Breaker.Mode == breaker.Observe
	if t.To == breaker.Open && (!observes || t.OpenUntil.IsZero()) {
		d.bulkhead.Evict(breaker.ErrOpen)
	}
	d.observer.BreakerChanged(d.name, t)
}

// Force holds the breaker open or closed until it is put back to automatic.
func (d *Dependency) Force(f breaker.Forced) { d.breaker.Force(time.Now(), f) }

// Name returns the dependency's name as the operator wrote it.
func (d *Dependency) Name() string { return d.name }

// InFlight returns the calls that have not ended, waiting ones included.
func (d *Dependency) InFlight() int { return int(d.inFlight.Load()) }

// Idle returns how long ago the last call came; very long where none has.
func (d *Dependency) Idle() time.Duration {
	return time.Since(d.created) - time.Duration(d.arrived.Load())
}

// Snapshot is a dependency's state at one moment.
type Snapshot struct {
	Name     string
	Upstream string // userinfo masked
	Breaker  breaker.Snapshot
	Bulkhead bulkhead.Snapshot
	Copies   stale.ShelfSnapshot
	InFlight int             // calls that have not ended, waiting ones included
	Shadow   *ShadowSnapshot // nil without a proposal
	Drill    *DrillSnapshot  // nil while none runs
}

// Snapshot reads the dependency's state. What follows from the clock, such as
// the end of a cooldown or a ramp's step, is brought up to date first.
func (d *Dependency) Snapshot() Snapshot {
	now := time.Now()
	run := d.current.Load()
	b := d.breaker.Snapshot(now)
	d.bulkhead.Recover(b.RecoveredAt)
	return Snapshot{
		Name:     d.name,
		Upstream: masked(run.settings.Upstream),
		Breaker:  b,
		Bulkhead: d.bulkhead.Snapshot(now),
		Copies:   run.shelf.Snapshot(now),
		InFlight: d.InFlight(),
		Shadow:   run.shadow.snapshot(now),
		Drill:    d.drills.snapshot(now),
	}
}

// masked shows a URL without its secrets.
func masked(u *url.URL) string {
	if u.User == nil {
		return u.String()
	}
	c := *u
	c.User = url.User("xxxxx")
	return c.String()
}

// roundTripperFunc makes a function an [http.RoundTripper].
type roundTripperFunc func(*http.Request) (*http.Response, error)

func (f roundTripperFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// copyBuffers lends the buffers through which bodies are copied.
var copyBuffers = &bufferPool{sync.Pool{New: func() any { return new([32 << 10]byte) }}}

// bufferPool is an [httputil.BufferPool]; an array pointer goes through the
// pool without an allocation.
type bufferPool struct{ pool sync.Pool }

func (p *bufferPool) Get() []byte  { return p.pool.Get().(*[32 << 10]byte)[:] }
func (p *bufferPool) Put(b []byte) { p.pool.Put((*[32 << 10]byte)(b)) }
