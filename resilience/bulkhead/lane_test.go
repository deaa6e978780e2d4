package bulkhead

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// patient is a context for calls that must not wait for ever: where a wake-up is
// lost, they fail.
func patient(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("nobody woke the call"))
	t.Cleanup(cancel)
	return ctx
}

// Permits that need no lock mix with waiting, refusals, evictions and changes
// of the size, in real time. Never do more run than the limit, every waiter is
// served, and at the end no permit is lost.
func TestLaneAndQueue(t *testing.T) {
	for _, tt := range []struct {
		name            string
		limits, waiting []int
	}{
		{"nobody waits", []int{2}, []int{0}},
		{"one limit", []int{3}, []int{0, 1, 16}},
		{"few wait", []int{15}, []int{16}},
		{"changing limits", []int{1, 2, 3, 16}, []int{0, 4, 16}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const workers, rounds = 16, 400
			policy := func() Policy {
				return Policy{
					MaxConcurrent: tt.limits[rand.IntN(len(tt.limits))],
					MaxWaiting:    tt.waiting[rand.IntN(len(tt.waiting))],
				}
			}
			b, ctx := New(policy()), patient(t)
			var inside gauge
			var workersDone atomic.Bool
			var all, control sync.WaitGroup
			for range workers {
				all.Go(func() {
					for i := range rounds {
						slot, err := b.Acquire(ctx, time.Now(), time.Time{})
						if err != nil {
							if !errors.Is(err, ErrFull) && !errors.Is(err, errEvicted) {
								t.Error(err)
								return
							}
							continue
						}
						inside.add(1)
						if i%4 == 0 {
							runtime.Gosched()
						}
						inside.add(-1)
						slot.Release(time.Now())
						slot.Release(time.Now())
					}
				})
			}
			control.Go(func() {
				for !workersDone.Load() {
					b.SetPolicy(time.Now(), policy())
					if s := b.Snapshot(time.Now()); s.InUse < 0 || s.InUse > workers {
						t.Errorf("snapshot with %d in use", s.InUse)
						return
					}
					if rand.IntN(8) == 0 {
						b.Evict(errEvicted)
					}
					runtime.Gosched()
				}
			})
			all.Wait()
			workersDone.Store(true)
			control.Wait()
			largest := tt.limits[len(tt.limits)-1]
			if inside.peak > largest {
				t.Errorf("%d ran at once, want at most %d", inside.peak, largest)
			}
			if s := b.Snapshot(time.Now()); s.InUse != 0 || s.Waiting != 0 {
				t.Errorf("not idle at the end: %+v", s)
			}
		})
	}
}

// A newcomer that arrives in the very moment in which a permit is given back
// does not overtake the call that waits for it.
func TestNewcomerBesideRelease(t *testing.T) {
	b, ctx := New(Policy{MaxConcurrent: 1, MaxWaiting: 2}), patient(t)
	for i := range 500 {
		var order []string // written by who holds the permit
		run := func(name string) {
			slot, err := b.Acquire(ctx, time.Now(), time.Time{})
			if err != nil {
				t.Error(err)
				return
			}
			order = append(order, name)
			slot.Release(time.Now())
		}
		holder := mustAcquire(t, b, time.Now())
		var all sync.WaitGroup
		all.Go(func() { run("waiter") })
		for b.Snapshot(time.Now()).Waiting == 0 {
			runtime.Gosched()
		}
		all.Go(func() { run("newcomer") })
		all.Go(func() { holder.Release(time.Now()) })
		all.Go(func() { b.SetPolicy(time.Now(), Policy{MaxConcurrent: 1, MaxWaiting: 2 + i%2}) })
		all.Wait()
		if len(order) != 2 || order[0] != "waiter" {
			t.Fatalf("round %d: %q", i, order)
		}
	}
}

// What the lane answers by itself is what the queue would say.
func TestLaneStates(t *testing.T) {
	now := time.Now()
	b := New(Policy{MaxConcurrent: 2})
	want := func(n int64) {
		t.Helper()
		if got := b.lane.n.Load(); got != n {
			t.Fatalf("lane at %d, want %d", got, n)
		}
	}
	want(2)
	first, second := mustAcquire(t, b, now), mustAcquire(t, b, now)
	want(0)
	if _, err := b.Acquire(t.Context(), now, time.Time{}); !errors.Is(err, ErrFull) {
		t.Fatalf("error %v, want %v", err, ErrFull)
	}
	want(refuses)
	b.SetPolicy(now, Policy{MaxConcurrent: 2, MaxWaiting: 1})
	want(asks)
	first.Release(now)
	want(1)
	b.SetPolicy(now, Policy{MaxConcurrent: 4, Ramp: time.Second})
	want(3)
	b.Recover(now)
	want(asks)
	second.Release(now.Add(time.Second))
	want(4)
	if !b.known.Load().Equal(now) {
		t.Errorf("known %v, want %v: calls that tell of that recovery would not use the lane", b.known.Load(), now)
	}
}

// A permit given back to a closed lane is the waiter's, also if others hold the
// lock before the one who gave it.
func TestLaneKeepsPermitForWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Policy{MaxConcurrent: 1, MaxWaiting: 2})
		start(t, b)
		waiter := start(t, b)
		if b.lane.giveBack() { // The first half of a Release.
			t.Fatal("the lane is open although a call waits")
		}
		b.Snapshot(time.Now())
		b.Recover(time.Time{})
		newcomer := start(t, b)
		waiter.wantRunning(t, 0)
		newcomer.wantWaiting(t)
		waiter.slot.Release(time.Now())
		newcomer.wantRunning(t, 0)
		newcomer.slot.Release(time.Now())
		wantIdle(t, b)
	})
}
