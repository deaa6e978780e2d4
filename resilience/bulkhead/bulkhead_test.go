package bulkhead

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Field case B4: with max 3 and q 3, seven calls at once are six that run and
// one refused; with q 0, four are three and one.
func TestQueueArithmetic(t *testing.T) {
	for _, tt := range []struct{ waiting, calls, run int }{{3, 7, 6}, {0, 4, 3}} {
		synctest.Test(t, func(t *testing.T) {
			b := New(Policy{MaxConcurrent: 3, MaxWaiting: tt.waiting, QueueTimeout: 500 * time.Millisecond})
			var ran, full atomic.Int32
			var inside gauge
			for range tt.calls {
				go func() {
					slot, err := b.Acquire(t.Context(), time.Now(), time.Time{})
					if errors.Is(err, ErrFull) {
						full.Add(1)
						return
					}
					ran.Add(1)
					inside.add(1)
					time.Sleep(300 * time.Millisecond)
					inside.add(-1)
					slot.Release(time.Now())
				}()
			}
			synctest.Wait()
			if full.Load() != 1 {
				t.Fatalf("q %d: %d refused at once, want 1", tt.waiting, full.Load())
			}
			wantSnapshot(t, b, Snapshot{Limit: 3, MaxConcurrent: 3, InUse: 3, Waiting: tt.waiting, MaxWaiting: tt.waiting})
			time.Sleep(time.Second)
			wantIdle(t, b)
			if got := int(ran.Load()); got != tt.run {
				t.Fatalf("q %d: %d ran, want %d", tt.waiting, got, tt.run)
			}
			if inside.peak != 3 {
				t.Fatalf("q %d: peak of %d at once, want 3", tt.waiting, inside.peak)
			}
		})
	}
}

func TestQueueTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Policy{MaxConcurrent: 1, MaxWaiting: 2, QueueTimeout: 250 * time.Millisecond})
		runner := start(t, b)
		first := start(t, b)
		time.Sleep(100 * time.Millisecond)
		second := start(t, b)
		time.Sleep(150*time.Millisecond - 1)
		first.wantWaiting(t)
		time.Sleep(time.Nanosecond)
		first.wantErr(t, ErrQueueTimeout, 250*time.Millisecond)
		second.wantWaiting(t)
		wantSnapshot(t, b, Snapshot{Limit: 1, MaxConcurrent: 1, InUse: 1, Waiting: 1, MaxWaiting: 2, OldestWait: 150 * time.Millisecond})
		time.Sleep(50 * time.Millisecond)
		runner.slot.Release(time.Now())
		second.wantRunning(t, 200*time.Millisecond)
		if got := second.slot.Waited(); got != 200*time.Millisecond {
			t.Errorf("Waited = %v, want 200ms", got)
		}
		if got := runner.slot.Waited(); got != 0 {
			t.Errorf("Waited = %v for a call that did not queue, want 0", got)
		}
		second.slot.Release(time.Now())
		wantIdle(t, b)
	})
}

func TestWaitsUntilContextEndsWithoutQueueTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Policy{MaxConcurrent: 1, MaxWaiting: 1})
		start(t, b)
		deadline := errors.New("timeout of the call passed")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 24*time.Hour, deadline)
		defer cancel()
		arrived := time.Now()
		_, err := b.Acquire(ctx, arrived, time.Time{})
		if !errors.Is(err, deadline) {
			t.Errorf("error %v, want the context's cause", err)
		}
		if got := time.Since(arrived); got != 24*time.Hour {
			t.Errorf("waited %v, want 24h", got)
		}
		wantSnapshot(t, b, Snapshot{Limit: 1, MaxConcurrent: 1, InUse: 1, MaxWaiting: 1})
	})
}

func TestEndedContextTakesNoPermit(t *testing.T) {
	b := New(Policy{MaxConcurrent: 1})
	gone := errors.New("caller has gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if _, err := b.Acquire(ctx, time.Now(), time.Time{}); !errors.Is(err, gone) {
		t.Errorf("error %v, want %v", err, gone)
	}
	wantInUse(t, b, 0)
}

// Field case B2: waiters whose callers left free their places at once and
// never run.
func TestWaitersLeaveWithTheirCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Policy{MaxConcurrent: 1, MaxWaiting: 5, QueueTimeout: 5 * time.Second})
		gone := errors.New("caller has gone")
		runner := start(t, b)
		var queued []*call
		for range 5 {
			queued = append(queued, start(t, b))
		}
		time.Sleep(200 * time.Millisecond)
		for _, c := range queued {
			c.cancel(gone)
		}
		for _, c := range queued {
			c.wantErr(t, gone, 200*time.Millisecond)
		}
		wantSnapshot(t, b, Snapshot{Limit: 1, MaxConcurrent: 1, InUse: 1, MaxWaiting: 5})
		live := start(t, b)
		time.Sleep(1800 * time.Millisecond)
		live.wantWaiting(t)
		runner.slot.Release(time.Now())
		live.wantRunning(t, 1800*time.Millisecond)
		live.slot.Release(time.Now())
		wantIdle(t, b)
	})
}

func TestFirstInFirstOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Policy{MaxConcurrent: 1, MaxWaiting: 6})
		running := start(t, b)
		var queued []*call
		for range 6 {
			queued = append(queued, start(t, b))
		}
		// One leaves from the middle, one from the end; the order holds.
		queued[2].cancel(context.Canceled)
		queued[5].cancel(context.Canceled)
		synctest.Wait()
		for _, i := range []int{0, 1, 3, 4} {
			time.Sleep(time.Second)
			for _, later := range queued[i+1:] {
				if later.ended.Load() && later.err == nil {
					t.Fatalf("a later call overtook call %d", i)
				}
			}
			running.slot.Release(time.Now())
			synctest.Wait()
			running = queued[i]
			if !running.ended.Load() {
				t.Fatalf("call %d was not next", i)
			}
		}
		running.slot.Release(time.Now())
		wantIdle(t, b)
	})
}

// A permit that becomes free belongs to the waiter even before it has woken:
// a newcomer in the same instant waits behind it.
func TestNewcomerDoesNotOvertake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Policy{MaxConcurrent: 1, MaxWaiting: 2})
		runner := start(t, b)
		waiter := start(t, b)
		runner.slot.Release(time.Now())
		newcomer := start(t, b)
		waiter.wantRunning(t, 0)
		newcomer.wantWaiting(t)
		if waiter.slot.Waited() == 0 {
			t.Error("Waited = 0 for a call that queued, want above 0")
		}
		newcomer.cancel(context.Canceled)
		synctest.Wait()
	})
}

func TestReleaseCountsOnce(t *testing.T) {
	now := time.Now()
	b := New(Policy{MaxConcurrent: 2})
	one, two := mustAcquire(t, b, now), mustAcquire(t, b, now)
	one.Release(now)
	one.Release(now)
	one.Release(now)
	wantInUse(t, b, 1)
	two.Release(now)
	wantInUse(t, b, 0)
	var zero Slot
	zero.Release(now)
	if zero.Waited() != 0 {
		t.Errorf("Waited = %v on the zero Slot, want 0", zero.Waited())
	}
	wantInUse(t, b, 0)
}
