package stale

import (
	"crypto/rand"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Store keeps the copies of all dependencies within one bound of bytes. It is
// safe for concurrent use.
type Store struct {
	maxBytes  atomic.Int64
	maxObject atomic.Int64
	seed      maphash.Seed
	secret    []byte // keys the hashes of header values
	epochs    [8192]atomic.Uint32
	put       atomic.Int64 // bytes put since the last balance
	stores    atomic.Uint64
	evictions atomic.Uint64
	skips     [none]atomic.Uint64
	disk      atomic.Pointer[Disk]

	reading   sync.WaitGroup // files of the last run
	balancing sync.Mutex     // one balance at a time

	mu      sync.Mutex // guards shelves
	shelves []*Shelf
}

// NewStore returns an empty store bounded by maxBytes in all and maxObject for
// a single body. Sizes include keys, headers and an estimate of the overhead.
func NewStore(maxBytes, maxObject int64) *Store {
	s := &Store{seed: maphash.MakeSeed(), secret: make([]byte, 32)}
	_, _ = rand.Read(s.secret) // never fails
	s.maxBytes.Store(maxBytes)
	s.maxObject.Store(maxObject)
	return s
}

// Shelf returns an empty shelf for a dependency's copies of one upstream's
// answers, in the place of the one that it may have had: that is closed. Close
// it when nobody asks it any more.
func (s *Store) Shelf(dependency, upstream string) *Shelf {
	if s == nil {
		return nil
	}
	for _, before := range s.all() {
		if before.name == dependency {
			before.Close() // later, it would take the new one's files for its own
		}
	}
	shelf := newShelf(s, dependency, upstream)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shelves = append(s.shelves, shelf)
	return shelf
}

// forget takes a shelf out of the store.
func (s *Store) forget(shelf *Shelf) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.shelves, shelf); i >= 0 {
		s.shelves = slices.Delete(s.shelves, i, i+1)
	}
}

func (s *Store) all() []*Shelf {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.shelves)
}

// Resize changes the bounds in place; what no longer fits is evicted.
func (s *Store) Resize(maxBytes, maxObject int64) {
	s.maxObject.Store(maxObject)
	if s.maxBytes.Swap(maxBytes) != maxBytes {
		s.balance()
	}
}

func (s *Store) bytes() int64 { return max(1, s.maxBytes.Load()) }

// slack is how much may be put between two balances: the store keeps that much
// free when several dependencies share it.
func (s *Store) slack() int64 { return s.bytes() / 64 }

// grew notes that a copy was put. Its maximum alone keeps a lonely shelf within
// bounds.
func (s *Store) grew(n int) {
	if s.put.Add(int64(n)) >= s.slack() {
		s.balance()
	}
}

// balance sets the room of each shelf: its equal share, or what the others
// leave free where that is more.
func (s *Store) balance() {
	s.balancing.Lock()
	defer s.balancing.Unlock()
	s.put.Store(0)
	var sharing []*Shelf
	for _, shelf := range s.all() {
		if shelf.Wanted() {
			sharing = append(sharing, shelf)
		}
	}
	limit := s.bytes()
	if len(sharing) > 1 {
		limit -= s.slack()
	}
	used, total := make([]int64, len(sharing)), int64(0)
	for i, shelf := range sharing {
		used[i] = shelf.weight()
		total += used[i]
	}
	for i, shelf := range sharing {
		room := uint64(max(1, s.share(len(sharing)), limit-(total-used[i])))
		if shelf.entries.GetMaximum() != room {
			shelf.entries.SetMaximum(room)
		}
	}
}

// share is what each of n shelves has for itself.
func (s *Store) share(n int) int64 {
	if n <= 1 {
		return s.bytes()
	}
	return (s.bytes() - s.slack()) / int64(n)
}

func (s *Store) skip(why Skip) {
	if why < unasked {
		s.skips[why].Add(1)
	}
}

// Close lets the goroutines go, and brings what is still to be written to the
// disk. Copies on disk stay for the next start.
func (s *Store) Close() {
	if d := s.disk.Load(); d != nil {
		d.close()
		s.disk.Store(nil)
		s.reading.Wait()
	}
	for _, shelf := range s.all() {
		shelf.Close()
	}
}

// Snapshot is a store's state at one moment.
type Snapshot struct {
	Bytes     int64
	Entries   int
	Stores    uint64
	Evictions uint64
	Skips     map[string]uint64 // by one of [SkipNames]
}

// Snapshot reads the store's state.
func (s *Store) Snapshot() Snapshot {
	snap := Snapshot{
		Stores:    s.stores.Load(),
		Evictions: s.evictions.Load(),
		Skips:     make(map[string]uint64, len(SkipNames)),
	}
	for _, shelf := range s.all() {
		snap.Bytes += shelf.weight()
		snap.Entries += shelf.entries.EstimatedSize()
	}
	for i, name := range SkipNames {
		snap.Skips[name] = s.skips[i].Load()
	}
	return snap
}

// ShelfSnapshot is the state of one dependency's copies.
type ShelfSnapshot struct {
	Bytes   int64
	Entries int
	Share   int64         // what no other dependency can take; 0 without a stale fallback
	Oldest  time.Duration // age of the oldest copy, at most a second ago; 0 without any
}

// Snapshot reads the shelf's state.
func (s *Shelf) Snapshot(now time.Time) ShelfSnapshot {
	if !s.Wanted() {
		return ShelfSnapshot{}
	}
	n := 0
	for _, shelf := range s.store.all() {
		if shelf.Wanted() {
			n++
		}
	}
	return ShelfSnapshot{
		Bytes: s.weight(), Entries: s.entries.EstimatedSize(),
		Share: s.store.share(n), Oldest: s.oldest.age(s, now),
	}
}

// weight is what the copies occupy; those that were put a moment ago count.
func (s *Shelf) weight() int64 {
	s.entries.CleanUp()
	return int64(s.entries.WeightedSize()) //nolint:gosec // bounded by the maximum
}

// oldest remembers the age of the oldest copy for a second: finding it means
// looking at all.
type oldest struct {
	mu   sync.Mutex // guards everything below
	at   time.Time
	made time.Time
}

func (o *oldest) age(s *Shelf, now time.Time) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.at.IsZero() || now.Sub(o.at) >= time.Second {
		o.at, o.made = now, time.Time{}
		for c := range s.entries.Values() {
			if made := c.fresh.made(); o.made.IsZero() || made.Before(o.made) {
				o.made = made
			}
		}
	}
	if o.made.IsZero() {
		return 0
	}
	return now.Sub(o.made)
}
