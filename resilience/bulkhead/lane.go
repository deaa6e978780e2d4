package bulkhead

import "sync/atomic"

// lane holds the free permits while nobody waits and no ramp runs, so that calls
// take one and give it back without the lock. Its single number is all that
// there is to know, so a compare-and-swap on it can never act on what is past:
//
//	n ≥ 0   open: n permits are free, all others are in use, nobody waits
//	asks    closed: the queue decides, under the lock
//	refuses closed: every newcomer is refused; releases go to the queue
//
// Who holds the bulkhead's lock has closed the lane before and opens it after.
// Hence the queue never counts while permits come and go here, and none is free
// here while somebody waits: no newcomer overtakes.
type lane struct{ free atomic.Int64 }

// The answers of take: the states of a closed lane, and a permit.
const (
	asks    = -1
	refuses = -2
	taken   = 0
)

// take takes a free permit, or tells why there is none: asks or refuses.
func (l *lane) take() int64 {
	for {
		n := l.free.Load()
		switch {
		case n < 0:
			return n
		case n == 0:
			return asks
		case l.free.CompareAndSwap(n, n-1):
			return taken
		}
	}
}

// giveBack gives a permit back, or reports that the queue has to take it.
func (l *lane) giveBack() bool {
	for {
		n := l.free.Load()
		if n < 0 {
			return false
		}
		if l.free.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// close closes the lane and tells the queue of the permits in use.
func (l *lane) close(q *queue) {
	if n := l.free.Swap(asks); n >= 0 {
		q.inUse = q.policy.MaxConcurrent - int(n)
	}
}

// open opens the lane if the queue needs to decide nothing, and lets newcomers
// be refused here if that is all it could decide: every permit and waiting place
// is taken, and time alone frees none.
func (l *lane) open(q *queue) {
	free := q.policy.MaxConcurrent - q.inUse
	switch {
	case q.ramp.running(): // its steps free permits
		l.free.Store(asks)
	case free <= 0 && q.waiting >= q.policy.MaxWaiting:
		l.free.Store(refuses)
	case free > 0 && q.waiting == 0:
		l.free.Store(int64(free))
	default:
		l.free.Store(asks)
	}
}
