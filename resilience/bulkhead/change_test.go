package bulkhead

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestRaisedLimitWakesWaitersAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Policy{MaxConcurrent: 1, MaxWaiting: 3})
		start(t, b)
		first, second, third := start(t, b), start(t, b), start(t, b)
		time.Sleep(time.Second)
		b.SetPolicy(time.Now(), Policy{MaxConcurrent: 3, MaxWaiting: 3})
		first.wantRunning(t, time.Second)
		second.wantRunning(t, time.Second)
		third.wantWaiting(t)
		wantSnapshot(t, b, Snapshot{Limit: 3, MaxConcurrent: 3, InUse: 3, Waiting: 1, MaxWaiting: 3, OldestWait: time.Second})
		third.cancel(context.Canceled)
		synctest.Wait()
	})
}

func TestLoweredLimitLetsRunningCallsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Policy{MaxConcurrent: 3, MaxWaiting: 2})
		running := []*call{start(t, b), start(t, b), start(t, b)}
		first, second := start(t, b), start(t, b)
		b.SetPolicy(time.Now(), Policy{MaxConcurrent: 1, MaxWaiting: 0})
		// Those in the queue keep their places, newcomers find none.
		wantSnapshot(t, b, Snapshot{Limit: 1, MaxConcurrent: 1, InUse: 3, Waiting: 2})
		start(t, b).wantErr(t, ErrFull, 0)
		for _, c := range running[:2] {
			time.Sleep(time.Second)
			c.slot.Release(time.Now())
			first.wantWaiting(t)
		}
		time.Sleep(time.Second)
		running[2].slot.Release(time.Now())
		first.wantRunning(t, 3*time.Second)
		second.wantWaiting(t)
		first.slot.Release(time.Now())
		second.wantRunning(t, 3*time.Second)
		second.slot.Release(time.Now())
		wantIdle(t, b)
	})
}

func TestQueueTimeoutOfARunningWaitStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Policy{MaxConcurrent: 1, MaxWaiting: 2, QueueTimeout: time.Second})
		start(t, b)
		before := start(t, b)
		b.SetPolicy(time.Now(), Policy{MaxConcurrent: 1, MaxWaiting: 2, QueueTimeout: 3 * time.Second})
		after := start(t, b)
		time.Sleep(3 * time.Second)
		before.wantErr(t, ErrQueueTimeout, time.Second)
		after.wantErr(t, ErrQueueTimeout, 3*time.Second)
	})
}

func TestEvict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := errors.New("circuit open")
		b := New(Policy{MaxConcurrent: 1, MaxWaiting: 3, QueueTimeout: time.Minute})
		b.Evict(open) // Nobody waits: nothing happens.
		runner := start(t, b)
		waiters := []*call{start(t, b), start(t, b), start(t, b)}
		time.Sleep(time.Second)
		b.Evict(open)
		for _, c := range waiters {
			c.wantErr(t, open, time.Second)
		}
		wantSnapshot(t, b, Snapshot{Limit: 1, MaxConcurrent: 1, InUse: 1, MaxWaiting: 3})
		last := start(t, b)
		b.Evict(nil)
		last.wantErr(t, ErrFull, 0)
		runner.slot.Release(time.Now())
		wantIdle(t, b)
	})
}

// Whatever ends a wait in the very instant of the grant, the permit is not
// lost: it runs the call, or goes to the next in the queue. The events follow
// each other without a pause, so that the waiter sees them in any order.
func TestGrantRaces(t *testing.T) {
	gone := errors.New("caller has gone")
	open := errors.New("circuit open")
	grant := func(r *call) { r.slot.Release(time.Now()) }
	for _, tt := range []struct {
		name string
		race func(b *Bulkhead, runner, waiter *call)
		want error
		next error
	}{
		{"cancel, grant", func(_ *Bulkhead, r, w *call) { w.cancel(gone); grant(r) }, gone, nil},
		{"grant, evict", func(b *Bulkhead, r, _ *call) { grant(r); b.Evict(open) }, nil, open},
		{"evict, grant", func(b *Bulkhead, r, _ *call) { b.Evict(open); grant(r) }, open, open},
		{"cancel, grant, evict", func(b *Bulkhead, r, w *call) { w.cancel(gone); grant(r); b.Evict(open) }, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := New(Policy{MaxConcurrent: 1, MaxWaiting: 2})
				runner := start(t, b)
				waiter, next := start(t, b), start(t, b)
				tt.race(b, runner, waiter)
				synctest.Wait()
				if tt.want != nil {
					waiter.wantErr(t, tt.want, 0)
				}
				switch {
				case tt.next != nil:
					next.wantErr(t, tt.next, 0)
				case tt.want != nil:
					next.wantRunning(t, 0)
				}
				holders := 0
				for _, c := range []*call{waiter, next} {
					if !c.ended.Load() {
						t.Fatal("a call still waits")
					}
					if c.err == nil {
						holders++
					}
				}
				wantInUse(t, b, holders)
				waiter.slot.Release(time.Now())
				next.slot.Release(time.Now())
				wantIdle(t, b)
			})
		})
	}
}

// A permit granted in the instant of the queue timeout is used: whichever the
// waiter hears of first, a grant that was made holds.
func TestGrantBeatsQueueTimeout(t *testing.T) {
	now := time.Now()
	q := queue{policy: Policy{MaxConcurrent: 1, MaxWaiting: 1, QueueTimeout: time.Second}}
	if w, err := q.enter(now, time.Time{}); w != nil || err != nil {
		t.Fatalf("enter = %v, %v, want a permit", w, err)
	}
	w, err := q.enter(now, time.Time{})
	if w == nil || err != nil {
		t.Fatalf("enter = %v, %v, want a waiter", w, err)
	}
	late := now.Add(time.Second)
	q.inUse--
	q.settle(late)
	if s := q.look(late, w, nil); !s.granted || s.err != nil {
		t.Fatalf("look at the timeout = %+v, want granted", s)
	}
	if q.inUse != 1 || q.waiting != 0 {
		t.Fatalf("in use %d, waiting %d, want 1 and 0", q.inUse, q.waiting)
	}
}

// A cancelled waiter that was already granted gives the permit on, also where
// the context ended after the waiter had begun to look.
func TestGrantedThenCancelledHandsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Policy{MaxConcurrent: 1, MaxWaiting: 2})
		runner := start(t, b)
		gone := errors.New("caller has gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		b.lock()
		w, err := b.queue.enter(time.Now(), time.Time{})
		b.unlock()
		if err != nil {
			t.Fatal(err)
		}
		next := start(t, b)
		runner.slot.Release(time.Now()) // Grants w before its call looks.
		cancel(gone)
		slot, err := b.wait(ctx, w)
		if !errors.Is(err, gone) {
			t.Errorf("error %v, want %v", err, gone)
		}
		slot.Release(time.Now()) // The zero Slot: harmless.
		next.wantRunning(t, 0)
		next.slot.Release(time.Now())
		wantIdle(t, b)
	})
}
