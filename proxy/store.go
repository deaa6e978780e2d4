package proxy

import (
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
)

// Store keeps the copies of earlier answers for all dependencies, within one
// bound of bytes. It is safe for concurrent use.
//
// A target gives its copy, or, as RFC 9111 §4.1 needs, the names of the request
// headers that its answers vary by, and these headers' values give the copy.
type Store struct {
	entries   *otter.Cache[string, entry]
	maxObject atomic.Int64
	epochs    atomic.Uint64
	stores    atomic.Uint64
	evictions atomic.Uint64
	skips     [len(skipNames)]atomic.Uint64
}

// entry is a *variants or a *stored, weighed by what it occupies.
type entry interface{ size() int }

// variants says what one target's answers vary by. A new epoch makes the
// copies of the old one unreachable; they leave as others need their place.
type variants struct {
	key   string
	names []string // canonical, sorted as the answer listed them
	epoch uint64
}

// stored is one answer.
type stored struct {
	key    string
	status int
	header http.Header // end-to-end fields, without Age
	body   []byte
	fresh  freshness
}

const entryOverhead = 256 // bytes for maps, pointers and the cache's own node

func (v *variants) size() int { return entryOverhead + len(v.key) + 16*len(v.names) }

func (s *stored) size() int {
	n := entryOverhead + len(s.key) + len(s.body)
	for name, lines := range s.header {
		n += len(name) + 32
		for _, line := range lines {
			n += len(line) + 16
		}
	}
	return n
}

// NewStore returns an empty store bounded by maxBytes in all and maxObject for
// a single body. Sizes include keys, headers and an estimate of the overhead.
func NewStore(maxBytes, maxObject int64) *Store {
	s := &Store{}
	s.maxObject.Store(maxObject)
	s.entries = otter.Must(&otter.Options[string, entry]{
		MaximumWeight: uint64(max(1, maxBytes)),
		Weigher:       func(_ string, e entry) uint32 { return uint32(e.size()) }, //nolint:gosec // bounded by maxObject and the header limit
		OnDeletion: func(e otter.DeletionEvent[string, entry]) {
			if e.WasEvicted() {
				s.evictions.Add(1)
			}
		},
	})
	return s
}

// Resize changes the bounds in place; what no longer fits is evicted.
func (s *Store) Resize(maxBytes, maxObject int64) {
	s.maxObject.Store(maxObject)
	s.entries.SetMaximum(uint64(max(0, maxBytes)))
}

// Close lets the store's copies and goroutines go.
func (s *Store) Close() {
	s.entries.InvalidateAll()
	s.entries.StopAllGoroutines()
}

// StoreSnapshot is a store's state at one moment.
type StoreSnapshot struct {
	Bytes     int64
	Entries   int
	Stores    uint64
	Evictions uint64
	Skips     map[string]uint64 // by one of [SkipReasons]
}

// Snapshot reads the store's state.
func (s *Store) Snapshot() StoreSnapshot {
	snap := StoreSnapshot{
		Bytes:     int64(s.entries.WeightedSize()), //nolint:gosec // bounded by the maximum
		Entries:   s.entries.EstimatedSize(),
		Stores:    s.stores.Load(),
		Evictions: s.evictions.Load(),
		Skips:     make(map[string]uint64, len(skipNames)),
	}
	for i, name := range skipNames {
		snap.Skips[name] = s.skips[i].Load()
	}
	return snap
}

// lookup returns the copy for a request, or nil.
func (s *Store) lookup(primary string, r *http.Request) *stored {
	found, _ := s.entries.GetIfPresent(primary)
	if v, ok := found.(*variants); ok {
		found, _ = s.entries.GetIfPresent(v.variant(primary, r))
	}
	c, _ := found.(*stored)
	return c
}

// put keeps a complete answer to a request.
func (s *Store) put(primary string, r *http.Request, names []string, c *stored) {
	c.key = primary
	if len(names) > 0 {
		c.key = s.varyBy(primary, names).variant(primary, r)
	}
	s.entries.Set(c.key, c)
	s.stores.Add(1)
}

// varyBy notes what a target's answers vary by.
func (s *Store) varyBy(primary string, names []string) *variants {
	v := &variants{key: primary, names: names, epoch: s.epochs.Add(1)}
	s.entries.Compute(primary, func(old entry, found bool) (entry, otter.ComputeOp) {
		if o, ok := old.(*variants); found && ok && equalNames(o.names, names) {
			v = o
			return old, otter.CancelOp
		}
		return v, otter.WriteOp
	})
	return v
}

// drop forgets every copy of a target (RFC 9111 §4.4).
func (s *Store) drop(primary string) { s.entries.Invalidate(primary) }

func (s *Store) skip(why skipReason) { s.skips[why].Add(1) }

// variant is the key of the copy that fits a request. No value holds a zero
// byte (RFC 9110 §5.5), so two different sets of values never give one key.
func (v *variants) variant(primary string, r *http.Request) string {
	var b strings.Builder
	b.WriteString(primary)
	b.WriteByte(0)
	b.WriteString(strconv.FormatUint(v.epoch, 36))
	for _, name := range v.names {
		value, present := fieldValue(r, name)
		b.WriteByte(0)
		if present {
			b.WriteByte(':')
			b.WriteString(value)
		}
	}
	return b.String()
}

// fieldValue returns a request header's lines as one value (RFC 9110 §5.2).
func fieldValue(r *http.Request, name string) (value string, present bool) {
	if name == "Host" {
		return r.Host, true
	}
	lines, ok := r.Header[name]
	return strings.Join(lines, ", "), ok
}

func equalNames(a, b []string) bool { return strings.Join(a, ",") == strings.Join(b, ",") }

// freshness is what the age of a copy is counted from (RFC 9111 §4.2).
type freshness struct {
	arrived      time.Time     // when the headers came, with the monotonic clock
	initialAge   time.Duration // corrected_initial_age, §4.2.3
	lifetime     time.Duration // explicit freshness lifetime, §4.2.1; 0 = none given
	onlyFresh    bool          // never to be replayed stale, §4.2.4
	staleIfError time.Duration // how far past fresh it may be replayed, RFC 5861 §4; negative = not said
}

// age is current_age, RFC 9111 §4.2.3.
func (f freshness) age(now time.Time) time.Duration { return f.initialAge + now.Sub(f.arrived) }

// replayable reports whether the copy may be shown at this age, under the
// operator's max_age and the answer's own words.
func (f freshness) replayable(age, maxAge time.Duration) bool {
	switch past := age - f.lifetime; {
	case age > maxAge:
		return false
	case f.onlyFresh:
		return past < 0
	case f.staleIfError >= 0:
		return past <= f.staleIfError
	default:
		return true
	}
}
