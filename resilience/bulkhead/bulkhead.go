// Package bulkhead gives each dependency a compartment of its own: a bounded
// number of calls run, a bounded number of others wait, everyone else is
// refused at once. A dependency that hangs can so hold only its own share of
// the process, never its neighbours'.
//
// # Behaviour
//
// [Bulkhead.Acquire] gives a [Slot], leave for one call to run, which the call
// gives back with [Slot.Release] when its last byte has gone. With no free
// permit the call waits in a queue, and with no free place in the queue it is
// refused with [ErrFull].
//
// The queue is strictly first in, first out: no newcomer overtakes a waiter,
// also in the instant in which a permit becomes free. A waiter leaves the
// queue in one of four ways:
//
//   - it is granted a permit;
//   - its context ends: it leaves at once, never runs, and Acquire returns
//     [context.Cause]. A permit granted in the same instant goes to the next;
//   - it has waited for the queue timeout: [ErrQueueTimeout]. A permit granted
//     in the same instant is used;
//   - [Bulkhead.Evict] ends the wait of all, because the circuit opened.
//
// # Ramp
//
// A dependency that has just recovered is not given its full load at once.
// Acquire is told when the breaker last closed by successful probes; a later
// time than the last one seen starts a ramp, in which the limit grows
// linearly from 1 to [Policy.MaxConcurrent] over [Policy.Ramp], rounded down:
//
//	limit = floor(1 + (MaxConcurrent-1) × elapsed / Ramp)
//
// Each step of the ramp wakes waiters at its own moment, also when no call
// ends. No goroutine runs in the background: the first waiter's timer follows
// the steps.
//
// # Settings
//
// All of them can change while in use, see [Bulkhead.SetPolicy]; their
// meanings, units and ranges are given at [Policy].
//
// # Time
//
// Every decision is a pure state machine that takes the present time as an
// argument. Only Acquire waits, and only while it waits does it read the
// clock itself, so the times given must be readings of [time.Now].
//
// # Simulation
//
// A [Simulation] tells what a bulkhead of another size would have done with the
// same calls, and refuses none of them.
package bulkhead

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// The errors that Acquire refuses with. Nothing has been sent to the
// dependency, and no permit is held.
var (
	// ErrFull means that every permit and every waiting place is taken.
	ErrFull = errors.New("bulkhead: permits and waiting places are all taken; try again later or raise max_concurrent or max_waiting")
	// ErrQueueTimeout means that no permit became free within the queue timeout.
	ErrQueueTimeout = errors.New("bulkhead: no permit became free in time; try again later or raise max_concurrent or queue_timeout")
)

// Policy is the size of a bulkhead.
type Policy struct {
	// MaxConcurrent is the number of calls that may run at once, at least 1;
	// a smaller number counts as 1.
	MaxConcurrent int
	// MaxWaiting is the number of calls that may wait. At 0 or below none
	// waits: a call runs or is refused.
	MaxWaiting int
	// QueueTimeout is the longest wait. At 0 or below a call waits until its
	// context ends.
	QueueTimeout time.Duration
	// Ramp is the time in which the limit grows from 1 to MaxConcurrent after
	// a recovery. At 0 or below the limit is MaxConcurrent at once.
	Ramp time.Duration
}

// Bulkhead is one dependency's compartment. It is safe for concurrent use.
// Build it with [New].
type Bulkhead struct {
	lane  lane                      // the permits that need no lock
	known atomic.Pointer[time.Time] // queue.recovered, for those who hold no lock

	mu    sync.Mutex // guards the queue
	queue queue
}

// New returns an empty bulkhead of the size p.
func New(p Policy) *Bulkhead {
	b := &Bulkhead{queue: queue{policy: p.normal()}}
	b.known.Store(new(time.Time))
	b.lane.n.Store(asks)
	b.lane.open(&b.queue)
	return b
}

// lock closes the lane, so that the queue knows of all permits and nobody else
// takes one or gives one back.
func (b *Bulkhead) lock() {
	b.mu.Lock()
	b.lane.close(&b.queue)
}

// unlock opens the lane again as the queue now stands.
func (b *Bulkhead) unlock() {
	if b.queue.recovered.After(*b.known.Load()) {
		known := b.queue.recovered
		b.known.Store(&known)
	}
	b.lane.open(&b.queue)
	b.mu.Unlock()
}

// Acquire takes a permit, waiting for one in the queue if need be. The
// returned Slot must be released, whatever becomes of the call.
//
// now is the time of arrival. recovered is the time of the circuit's last
// recovery, the zero time if there was none: a later one than the last seen
// starts a ramp, any other changes nothing.
//
// Errors are ErrFull, ErrQueueTimeout, the cause of ctx if it has ended
// before a permit was taken, and the error given to Evict.
func (b *Bulkhead) Acquire(ctx context.Context, now, recovered time.Time) (Slot, error) {
	if ctx.Err() != nil {
		return Slot{}, context.Cause(ctx)
	}
	if !recovered.After(*b.known.Load()) {
		taken, n := b.lane.take()
		if taken {
			return Slot{bulkhead: b}, nil
		}
		if isRefusal(n) {
			return Slot{}, ErrFull
		}
	}
	return b.enter(ctx, now, recovered)
}

// enter is Acquire where the queue has to decide.
func (b *Bulkhead) enter(ctx context.Context, now, recovered time.Time) (Slot, error) {
	b.lock()
	w, err := b.queue.enter(now, recovered)
	b.unlock()
	if err != nil {
		return Slot{}, err
	}
	if w == nil {
		return Slot{bulkhead: b}, nil
	}
	return b.wait(ctx, w)
}

// wait blocks until the waiter w is granted a permit or has left the queue.
// One timer serves the queue timeout and the ramp's next step.
func (b *Bulkhead) wait(ctx context.Context, w *waiter) (Slot, error) {
	var timer *time.Timer
	var fires <-chan time.Time
	for {
		now, cause := time.Now(), context.Cause(ctx)
		b.lock()
		s := b.queue.look(now, w, cause)
		b.unlock()
		if s.err != nil {
			return Slot{}, s.err
		}
		if s.granted {
			// The context may have ended since cause was read: the permit
			// then belongs to the next, not to a call that nobody awaits.
			if cause := context.Cause(ctx); cause != nil {
				b.release(now)
				return Slot{}, cause
			}
			return Slot{bulkhead: b, waited: max(now.Sub(w.arrived), 1)}, nil
		}
		switch {
		case s.next.IsZero() && timer != nil:
			timer.Stop()
		case s.next.IsZero(): // Nothing to wait for but a signal or ctx.
		case timer == nil:
			timer = time.NewTimer(s.next.Sub(now))
			defer timer.Stop()
			fires = timer.C
		default:
			timer.Reset(s.next.Sub(now))
		}
		select {
		case <-w.woken:
		case <-ctx.Done():
		case <-fires:
		}
	}
}

// Evict ends every wait with err: when the circuit opens, waiting helps
// nobody. Calls that hold a permit run on. A nil err counts as ErrFull, for an
// Acquire without an error would mean a permit.
func (b *Bulkhead) Evict(err error) {
	if err == nil {
		err = ErrFull
	}
	b.lock()
	b.queue.evict(err)
	b.unlock()
}

// SetPolicy changes the size in place. A raised limit wakes waiters at once;
// a lowered one lets running calls end, and no more begin until fewer run. A
// lowered MaxWaiting lets those in the queue wait on, and the QueueTimeout
// under which a wait began stays its own. A ramp under way goes on from its
// start with the new numbers; one that is over stays over.
func (b *Bulkhead) SetPolicy(now time.Time, p Policy) {
	b.lock()
	b.queue.setPolicy(now, p.normal())
	b.unlock()
}

// Snapshot is a bulkhead at one instant.
type Snapshot struct {
	Limit         int           // calls that may run now; below MaxConcurrent during a ramp
	MaxConcurrent int           // as configured
	InUse         int           // permits held; above Limit after the limit was lowered
	Waiting       int           // calls in the queue
	MaxWaiting    int           // as configured; Waiting may exceed it after it was lowered
	OldestWait    time.Duration // how long the first in the queue has waited; 0 if none waits
}

// Recover starts the ramp of a recovery that no call has told of yet, so that a
// quiet dependency shows it too. Like in [Bulkhead.Acquire], an earlier or equal
// time than the last one, or a zero one, changes nothing.
func (b *Bulkhead) Recover(recovered time.Time) {
	b.lock()
	defer b.unlock()
	b.queue.recover(recovered)
}

// Snapshot tells how the bulkhead stands at now.
func (b *Bulkhead) Snapshot(now time.Time) Snapshot {
	b.lock()
	defer b.unlock()
	return b.queue.snapshot(now)
}

// release gives one permit back.
func (b *Bulkhead) release(now time.Time) {
	if b.lane.giveBack() {
		return
	}
	b.lock()
	b.queue.settle(now)
	b.unlock()
}

// Slot is leave for one call to run. The zero value holds no permit. A Slot
// must not be copied after its first Release; go vet reports copies. Its
// methods are safe for concurrent use.
type Slot struct {
	_        noCopy
	bulkhead *Bulkhead
	waited   time.Duration
	released uint32 // 1 after the first Release; atomic
}

// Release gives the permit back at now and wakes the next waiter. The first
// Release counts; later ones do nothing.
func (s *Slot) Release(now time.Time) {
	if s.bulkhead != nil && atomic.SwapUint32(&s.released, 1) == 0 {
		s.bulkhead.release(now)
	}
}

// Waited returns the time from the call's arrival until Acquire returned; 0
// if the call did not queue, at least 1 ns if it did. The present time after
// a wait is so the time of arrival plus Waited, without a second clock reading.
func (s *Slot) Waited() time.Duration { return s.waited }

// noCopy makes go vet report copies of the struct that holds it.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}
