// Package supervisor runs the dependencies of a configuration: their
// listeners, their servers and the proxies behind them.
//
// [Supervisor.Apply] brings a new configuration into force in three steps: a
// pure comparison says what differs, the preparation does everything that can
// fail and changes nothing, the commit cannot fail. So a reload is all or
// nothing, and what did not change is not touched: open circuits keep their
// expiry, and queues, streams, copies and counters live on.
//
// A listener belongs to its address, not to a dependency. When two
// dependencies swap ports, or a new one takes the port of one that leaves, the
// socket stays open and only what stands behind it changes.
package supervisor

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"sidecar/config"
	"sidecar/proxy"
	"sidecar/resilience/breaker"
	"sidecar/stale"
)

// quiet is how long no call may have come before a drain counts as done.
const quiet = time.Second

// ErrUnknown is returned for the name of no running dependency.
var ErrUnknown = errors.New("no dependency has this name")

// Options are what the supervisor needs of the rest of the process. All fields
// are required, but for those that say otherwise.
type Options struct {
	Observer proxy.Observer
	Added    func(dependency string) // called before its first call; may be nil
	Removed  func(dependency string) // called after its last call; may be nil
	Admin    http.Handler            // what admin.listen serves
	Metrics  http.Handler            // what metrics.listen serves
	ErrorLog *log.Logger             // for what net/http's servers complain of
	Warn     func(text string)       // of what goes wrong with cache.dir later; may be nil
}

// Supervisor is safe for concurrent use.
type Supervisor struct {
	o        Options
	store    *stale.Store
	draining atomic.Bool
	closing  chan struct{}  // closed when removed dependencies must not be waited for
	leaving  sync.WaitGroup // removed ports and dependencies on their way out
	lingers  atomic.Int64   // removed dependencies that still have calls

	mu      sync.Mutex // serialises Apply and Close; guards ports
	ports   map[string]*port
	current atomic.Pointer[running] // read by anyone
}

// running is one configuration in force.
type running struct {
	config       *config.Config
	dependencies []dependency // in the order of the file
}

type dependency struct {
	config config.Dependency
	proxy  *proxy.Dependency
}

// New returns a supervisor that runs nothing yet.
func New(o Options) *Supervisor {
	if o.Warn == nil {
		o.Warn = func(string) {}
	}
	s := &Supervisor{o: o, store: stale.NewStore(0, 0), ports: map[string]*port{}, closing: make(chan struct{})}
	s.current.Store(&running{})
	return s
}

// Apply brings a configuration into force, or returns an error and leaves the
// one in force untouched. A port that cannot be bound is such an error.
func (s *Supervisor) Apply(c *config.Config) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := compare(s.current.Load(), c)
	ready, err := s.prepare(c)
	if err != nil {
		return err
	}
	s.commit(c, p, ready)
	return nil
}

// prepared is everything that could have failed.
type prepared struct {
	settings map[string]*proxy.Settings // by dependency
	disk     *stale.Disk                // nil if there is none, or the same as before
	opened   map[string]*port           // by address
}

// prepare reads the certificates and opens the directory of copies and every
// listener that the configuration needs and that is not open yet.
func (s *Supervisor) prepare(c *config.Config) (prepared, error) {
	ready := prepared{settings: map[string]*proxy.Settings{}}
	for _, d := range c.Dependencies {
		one, err := Settings(d)
		if err != nil {
			return prepared{}, err
		}
		ready.settings[d.Name] = one
	}
	var err error
	if c.Cache.Dir != "" && s.dirChanges(c) {
		if ready.disk, err = stale.OpenDisk(c.Cache.Dir, s.o.Warn); err != nil {
			return prepared{}, fmt.Errorf("cache.dir: %w", err)
		}
	}
	if ready.opened, err = s.open(c); err != nil {
		ready.disk.Discard()
	}
	return ready, err
}

// dirChanges reports whether copies are to be kept elsewhere than now.
func (s *Supervisor) dirChanges(c *config.Config) bool {
	now := s.current.Load().config
	return now == nil || now.Cache.Dir != c.Cache.Dir
}

// commit puts the new configuration in the place of the old one.
func (s *Supervisor) commit(c *config.Config, p plan, ready prepared) {
	s.store.Resize(c.Cache.MaxBytes, c.Cache.MaxObjectBytes)
	if s.dirChanges(c) {
		s.store.UseDisk(ready.disk)
		defer s.store.ReadDisk() // once every dependency is there
	}
	next := &running{config: c}
	handlers := map[string]http.Handler{}
	for _, l := range listeners(c) {
		handlers[l.address] = map[string]http.Handler{ownerAdmin: s.o.Admin, ownerMetrics: s.o.Metrics}[l.owner]
	}
	for _, d := range c.Dependencies {
		r := dependency{config: d, proxy: p.kept[d.Name]}
		switch {
		case r.proxy == nil:
			if s.o.Added != nil {
				s.o.Added(d.Name)
			}
			r.proxy = proxy.New(d.Name, ready.settings[d.Name], s.store, s.o.Observer)
		case p.changed[d.Name]:
			r.proxy.Update(ready.settings[d.Name])
		}
		if !c.Admin.Drills {
			r.proxy.EndDrill(proxy.DrillForbidden)
		}
		handlers[d.Listen] = r.proxy
		next.dependencies = append(next.dependencies, r)
	}
	// The admin asks for what is in force as soon as its port is served.
	s.current.Store(next)
	for address, port := range ready.opened {
		s.ports[address] = port
	}
	for address, port := range s.ports {
		if h := handlers[address]; h != nil {
			port.serve(h)
			continue
		}
		delete(s.ports, address)
		port.refuse()
		s.leave(c.Shutdown.DrainTimeout, port.drain)
	}
	for _, gone := range p.removed {
		gone.EndDrill(proxy.DrillRemoved)
		s.lingers.Add(1)
		s.leave(c.Shutdown.DrainTimeout, func(ctx context.Context) { s.retire(ctx, gone) })
	}
}

// runs reports whether a dependency of this name is in force.
func (s *Supervisor) runs(name string) bool {
	_, err := s.find(name)
	return err == nil
}

// Snapshots returns the state of each dependency, in the order of the file.
func (s *Supervisor) Snapshots() []proxy.Snapshot {
	now := s.current.Load().dependencies
	all := make([]proxy.Snapshot, len(now))
	for i, d := range now {
		all[i] = d.proxy.Snapshot()
	}
	return all
}

// Listen returns the address of a dependency's listener, or "" for an unknown
// name.
func (s *Supervisor) Listen(name string) string {
	d, err := s.find(name)
	if err != nil {
		return ""
	}
	return d.config.Listen
}

// Store returns the state of the store of stale copies.
func (s *Supervisor) Store() stale.Snapshot { return s.store.Snapshot() }

// Config returns the configuration in force, or nil before the first.
func (s *Supervisor) Config() *config.Config { return s.current.Load().config }

// Force holds a dependency's breaker open or closed, or puts it back to
// automatic.
func (s *Supervisor) Force(name string, f breaker.Forced) error {
	d, err := s.find(name)
	if err != nil {
		return err
	}
	d.proxy.Force(f)
	return nil
}

func (s *Supervisor) find(name string) (dependency, error) {
	for _, d := range s.current.Load().dependencies {
		if d.config.Name == name {
			return d, nil
		}
	}
	return dependency{}, fmt.Errorf("%w: %q", ErrUnknown, name)
}

// Ready reports whether every listener accepts and no drain has begun. What
// the upstreams do does not matter: an app must start, and keep its place,
// while a dependency is sick.
func (s *Supervisor) Ready() bool {
	return s.current.Load().config != nil && !s.draining.Load()
}

// Drain waits until nothing is in flight and no call has come for a second, or
// until ctx ends. Listeners keep accepting meanwhile, so that an app that ends
// together with the sidecar still gets its last calls out, and drills end.
func (s *Supervisor) Drain(ctx context.Context) {
	s.draining.Store(true)
	s.endDrills()
	waitUntil(ctx, func() bool {
		if s.lingers.Load() > 0 {
			return false
		}
		for _, d := range s.current.Load().dependencies {
			if d.proxy.InFlight() > 0 || d.proxy.Idle() < quiet {
				return false
			}
		}
		return true
	})
}

// Close ends everything: listeners, connections, streams and upgraded
// connections. It is called once, and nothing is applied after it.
func (s *Supervisor) Close() {
	s.draining.Store(true)
	close(s.closing)
	s.mu.Lock()
	var closing sync.WaitGroup
	for address, port := range s.ports {
		closing.Go(port.close)
		delete(s.ports, address)
	}
	s.mu.Unlock()
	closing.Wait()
	s.leaving.Wait()
	s.store.Close() // before the dependencies, whose end would empty the disk
	for _, d := range s.current.Load().dependencies {
		d.proxy.Close()
	}
}
