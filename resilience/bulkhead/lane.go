package bulkhead

import "sync/atomic"

// lane holds the free permits while nobody waits and no ramp runs, so that calls
// take one and give it back without the lock. It is a single number: a base, and
// one more for each permit given back since the base was set.
//
//	from 0   open: so many permits are free, all others are in use, nobody waits
//	asks     closed: the queue decides, under the lock
//	refuses  closed, and every newcomer is refused
//
// Who holds the bulkhead's lock has closed the lane before and opens it after.
// So the queue never counts while permits are taken here, and none can be taken
// here while somebody waits: no newcomer overtakes. A permit given back to a
// closed lane stays in the number until the lane is closed anew, and whoever gave
// it takes the lock next, so that those who wait get it.
type lane struct{ n atomic.Int64 }

const (
	asks    = -1 << 40 // far below any number of permits given back
	refuses = -1 << 41
)

func isOpen(n int64) bool { return n >= 0 }

// isRefusal reports whether every newcomer is refused.
func isRefusal(n int64) bool { return n < asks }

// take takes a permit, if there is a free one, and returns the number it found.
func (l *lane) take() (taken bool, n int64) {
	for {
		n = l.n.Load()
		if n <= 0 {
			return false, n
		}
		if l.n.CompareAndSwap(n, n-1) {
			return true, n
		}
	}
}

// giveBack gives a permit back. False tells to take the lock and let the queue
// settle.
func (l *lane) giveBack() bool { return isOpen(l.n.Add(1)) }

// close closes the lane and tells the queue of the permits in use.
func (l *lane) close(q *queue) {
	switch n := l.n.Swap(asks); {
	case isOpen(n):
		q.inUse = q.policy.MaxConcurrent - int(n)
	case isRefusal(n):
		q.inUse -= int(n - refuses)
	default:
		q.inUse -= int(n - asks)
	}
}

// open opens the lane if the queue has nothing to decide, and lets newcomers be
// refused here if that is all it would decide: every permit and every waiting
// place is taken, and time alone frees none.
func (l *lane) open(q *queue) {
	free := q.policy.MaxConcurrent - q.inUse
	switch {
	case q.ramp.running(): // time frees permits
	case free > 0 && q.waiting == 0:
		l.n.Add(int64(free) - asks)
	case free <= 0 && q.waiting >= q.policy.MaxWaiting:
		l.n.Add(refuses - asks)
	}
}
