package retry

import (
	"sync"
	"sync/atomic"
	"time"
)

// A second is counted in buckets of 1/64 s. Retries are counted in 65
// buckets, the running one and 64 before it, which cover the last second and
// up to a bucket more; calls in 64, which cover it but for up to a bucket.
// The bound so holds for the exact second, wherever in a bucket it ends.
const (
	bucket      = time.Second / 64
	callBuckets = 64
	buckets     = callBuckets + 1

	unused = -1 // stands for the running bucket before the first use
)

// BudgetPolicy is how many retries a dependency's calls may make.
type BudgetPolicy struct {
	// Ratio is the number of retries allowed for each call, from 0.
	Ratio float64
	// MinPerSecond is the number of retries in a second that need no calls
	// to justify them, from 0.
	MinPerSecond int
}

// Budget grants retries while those begun in the last second, the asking one
// included, are at most max(MinPerSecond, Ratio × calls begun in it). The
// bound holds for every second that ends with a granted retry. It is safe for
// concurrent use and does not allocate. Build it with [NewBudget].
type Budget struct {
	// A call that begins in the running bucket is only added to fresh, without
	// the lock; whoever holds that counts it with the others.
	last  atomic.Int64 // number of the running bucket, unused before the first use; written under the lock
	start time.Time    // of bucket 0; written once, before last is
	_     [64]byte     // keeps them off the cache line that every call writes
	fresh atomic.Int64 // calls begun and not yet in the rings

	mu     sync.Mutex // guards everything below
	policy BudgetPolicy

	// Rings, by bucket number modulo buckets, and their sums.
	calls, retries       [buckets]int64
	callsSum, retriesSum int64
}

// NewBudget returns a budget that has seen nothing.
func NewBudget(p BudgetPolicy) *Budget {
	b := &Budget{policy: p}
	b.last.Store(unused)
	return b
}

// SetPolicy changes the bound in place; what was counted stays.
func (b *Budget) SetPolicy(p BudgetPolicy) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.policy = p
}

// Call counts a call that begins at now. A now before the latest one given
// counts as the latest, here and in Retry.
func (b *Budget) Call(now time.Time) {
	// If the bucket ends meanwhile, the call counts in the next: now is then
	// before the latest one given.
	if last := b.last.Load(); last == unused || b.number(now) > last {
		b.mu.Lock()
		b.advance(now)
		b.mu.Unlock()
	}
	b.fresh.Add(1)
}

// Retry asks for a retry that would begin at now. True grants and counts it;
// false leaves the budget as it was.
func (b *Budget) Retry(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance(now)
	if b.retriesSum >= b.allowed() {
		return false
	}
	b.retries[b.last.Load()%buckets]++
	b.retriesSum++
	return true
}

// allowed returns the number of retries that the last second may hold.
func (b *Budget) allowed() int64 {
	// 0.29 × 100 is 28.999999999999996 in binary and means 29.
	const rounding = 1e-9
	byRatio := b.policy.Ratio*float64(b.callsSum) + rounding
	return max(int64(b.policy.MinPerSecond), int64(byRatio))
}

// number returns the number of the bucket that holds now.
func (b *Budget) number(now time.Time) int64 { return int64(now.Sub(b.start) / bucket) }

// advance counts the calls begun so far, then makes the bucket of now the
// running one and lets those that left the last second go.
func (b *Budget) advance(now time.Time) {
	last := b.last.Load()
	if last == unused {
		b.start, last = now, 0
	}
	fresh := b.fresh.Swap(0)
	b.calls[last%buckets] += fresh
	b.callsSum += fresh

	to := b.number(now)
	if to-last >= buckets {
		b.calls, b.retries = [buckets]int64{}, [buckets]int64{}
		b.callsSum, b.retriesSum = 0, 0
		last = to
	}
	for last < to {
		last++
		// Bucket last-64 leaves the calls, last-65 the retries; the running
		// one takes the place of the latter.
		b.callsSum -= b.calls[(last+buckets-callBuckets)%buckets]
		here := last % buckets
		b.retriesSum -= b.retries[here]
		b.calls[here], b.retries[here] = 0, 0
	}
	b.last.Store(last)
}
