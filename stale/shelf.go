package stale

import (
	"hash/maphash"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
)

// Shelf holds the copies of one dependency at one upstream. It is safe for
// concurrent use. A nil Shelf is empty and stays so.
type Shelf struct {
	store    *Store
	name     string // the dependency's
	upstream string // whose answers these are
	wanted   atomic.Bool
	entries  *otter.Cache[string, *Copy] // by Copy.key; decides what is evicted
	stripes  [64]stripe                  // by target

	oldest oldest
}

// stripe is the index of some of a shelf's targets. Its mutex is held for
// every change of their copies, in memory and on disk, so that these never
// disagree for good.
type stripe struct {
	mu      sync.RWMutex
	closed  bool
	targets map[string]*variants
}

// variants says what one target's answers vary by, and where its copies are.
type variants struct {
	names []string
	keys  map[string]struct{}
}

func newShelf(s *Store, name, upstream string) *Shelf {
	shelf := &Shelf{store: s, name: name, upstream: upstream}
	for i := range shelf.stripes {
		shelf.stripes[i].targets = map[string]*variants{}
	}
	shelf.entries = otter.Must(&otter.Options[string, *Copy]{
		MaximumWeight: uint64(s.bytes()),                                          //nolint:gosec // never negative
		Weigher:       func(_ string, c *Copy) uint32 { return uint32(c.size()) }, //nolint:gosec // bounded by max_object_bytes and the header limit
		OnDeletion: func(e otter.DeletionEvent[string, *Copy]) {
			if e.WasEvicted() {
				s.evictions.Add(1)
				shelf.evicted(e.Value)
			}
		},
	})
	return shelf
}

// Want says whether any fallback still shows this shelf's copies. Without one
// they go, and their room with them.
func (s *Shelf) Want(wanted bool) {
	if s == nil || s.wanted.Swap(wanted) == wanted {
		return
	}
	if !wanted {
		s.clear(false)
	}
	s.store.balance()
}

// Wanted reports whether answers are worth keeping.
func (s *Shelf) Wanted() bool { return s != nil && s.wanted.Load() }

// Find returns the copy that may answer a request now, or nil. No copy is
// older than maxAge, and each is keyed by varyBy at least.
func (s *Shelf) Find(target string, r *http.Request, now time.Time, maxAge time.Duration, varyBy []string) *Copy {
	if s == nil {
		return nil
	}
	c := s.lookup(target, r)
	switch {
	case c == nil,
		slices.ContainsFunc(varyBy, func(name string) bool { return !slices.Contains(c.names, name) }),
		hasCredentials(r.Header, c.names) && !shared(parseDirectives(c.header["Cache-Control"])),
		!c.negotiable(r),
		!c.fresh.allows(c.Age(now), maxAge, wishes(r.Header)):
		return nil
	}
	return c
}

// lookup returns the copy that a request selects, or nil.
func (s *Shelf) lookup(target string, r *http.Request) *Copy {
	p := s.stripe(target)
	p.mu.RLock()
	v := p.targets[target]
	p.mu.RUnlock()
	if v == nil {
		return nil
	}
	c, _ := s.entries.GetIfPresent(variantKey(s.store.secret, target, v.names, r))
	return c
}

// put keeps a complete answer, unless its target was changed since it was
// asked for, or a newer answer is there.
func (s *Shelf) put(t Ticket, c *Copy) {
	p := s.stripe(t.target)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed || !s.Wanted():
	case s.epoch(t.target).Load() != t.epoch:
		s.store.skip(SkipInvalidated)
	case s.set(p, c):
		s.store.stores.Add(1)
		s.store.disk.Load().write(s, c)
	}
}

// set puts a copy in its place; false where a newer one is there. The stripe
// is locked.
func (s *Shelf) set(p *stripe, c *Copy) bool {
	if old, ok := s.entries.GetEntryQuietly(c.key); ok && old.Value.fresh.made().After(c.fresh.made()) {
		return false
	}
	v := p.targets[c.target]
	if v != nil && !slices.Equal(v.names, c.names) {
		s.remove(p, c.target) // nobody knows which of them still holds
		v = nil
	}
	if v == nil {
		v = &variants{names: c.names, keys: map[string]struct{}{}}
		p.targets[c.target] = v
	}
	v.keys[c.key] = struct{}{}
	s.entries.Set(c.key, c)
	s.store.grew(c.size())
	return true
}

// Drop forgets every copy of a target (RFC 9111 §4.4), and what is on its way
// to become one.
func (s *Shelf) Drop(target string) {
	if s == nil {
		return
	}
	p := s.stripe(target)
	p.mu.Lock()
	defer p.mu.Unlock()
	s.epoch(target).Add(1)
	s.remove(p, target)
}

// remove forgets every copy of a target. The stripe is locked.
func (s *Shelf) remove(p *stripe, target string) {
	disk := s.store.disk.Load()
	disk.removeUnread(s, target)
	v := p.targets[target]
	if v == nil {
		return
	}
	delete(p.targets, target)
	for key := range v.keys {
		s.entries.Invalidate(key)
		disk.remove(s, target, key)
	}
}

// evicted takes a copy out of the index that others needed the place of, unless
// a newer one has come meanwhile.
func (s *Shelf) evicted(c *Copy) {
	p := s.stripe(c.target)
	p.mu.Lock()
	defer p.mu.Unlock()
	v := p.targets[c.target]
	if _, present := s.entries.GetEntryQuietly(c.key); present || v == nil {
		return
	}
	if _, ours := v.keys[c.key]; !ours {
		return
	}
	delete(v.keys, c.key)
	if len(v.keys) == 0 {
		delete(p.targets, c.target)
	}
	s.store.disk.Load().remove(s, c.target, c.key)
}

// Close forgets every copy; nothing is kept from now on.
func (s *Shelf) Close() {
	if s == nil {
		return
	}
	s.store.forget(s)
	s.clear(true)
	s.entries.StopAllGoroutines()
	s.store.balance()
}

// clear forgets every copy.
func (s *Shelf) clear(forGood bool) {
	for i := range s.stripes {
		p := &s.stripes[i]
		p.mu.Lock()
		p.closed = forGood
		for target := range p.targets {
			s.epoch(target).Add(1)
			s.remove(p, target)
		}
		p.mu.Unlock()
	}
}

func (s *Shelf) hash(target string) uint64 {
	var h maphash.Hash
	h.SetSeed(s.store.seed)
	_, _ = h.WriteString(s.name)
	_ = h.WriteByte(0)
	_, _ = h.WriteString(target)
	return h.Sum64()
}

func (s *Shelf) stripe(target string) *stripe {
	return &s.stripes[s.hash(target)%uint64(len(s.stripes))]
}

// epoch counts the changes of a target. Others may share its number: then an
// answer is not kept that could have been.
func (s *Shelf) epoch(target string) *atomic.Uint32 {
	return &s.store.epochs[s.hash(target)%uint64(len(s.store.epochs))]
}
