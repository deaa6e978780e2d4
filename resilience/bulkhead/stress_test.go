package bulkhead

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Many goroutines acquire, hold, give up, are evicted and see the size change
// under them. At the end nothing is in use, nobody waits, and never did more
// run than the largest limit.
func TestStress(t *testing.T) {
	const workers, rounds, largest = 64, 60, 8
	synctest.Test(t, func(t *testing.T) {
		b := New(Policy{MaxConcurrent: 4, MaxWaiting: 32, QueueTimeout: 3 * time.Millisecond})
		open := errors.New("circuit open")
		var inside gauge
		var ran, refused atomic.Int64
		var all sync.WaitGroup
		for range workers {
			all.Go(func() {
				for range rounds {
					ctx, cancel := context.WithTimeout(t.Context(), micros(4000))
					now := time.Now()
					slot, err := b.Acquire(ctx, now, now.Add(-micros(20_000)))
					if err == nil {
						ran.Add(1)
						inside.add(1)
						time.Sleep(micros(1000))
						inside.add(-1)
						// Both race; one of them counts.
						done := make(chan struct{})
						go func() { slot.Release(time.Now()); close(done) }()
						slot.Release(time.Now())
						<-done
					} else {
						refused.Add(1)
						time.Sleep(micros(1000))
					}
					cancel()
				}
			})
		}
		all.Go(func() {
			for range rounds {
				time.Sleep(micros(2000))
				b.SetPolicy(time.Now(), Policy{
					MaxConcurrent: 1 + rand.IntN(largest), MaxWaiting: rand.IntN(48),
					QueueTimeout: micros(4000), Ramp: micros(10_000),
				})
				if rand.IntN(4) == 0 {
					b.Evict(open)
				}
				b.Snapshot(time.Now())
			}
		})
		all.Wait()
		wantIdle(t, b)
		if inside.peak > largest {
			t.Errorf("%d ran at once, want at most %d", inside.peak, largest)
		}
		if ran.Load() == 0 || refused.Load() == 0 || ran.Load()+refused.Load() != workers*rounds {
			t.Errorf("%d ran and %d were refused, want some of each and %d in all", ran.Load(), refused.Load(), workers*rounds)
		}
	})
}

// micros returns a random duration below n microseconds.
func micros(n int) time.Duration { return time.Duration(rand.IntN(n)) * time.Microsecond }

// The same in real time: no permit is lost where goroutines really run side
// by side and contexts end in the instant of the grant.
func TestParallelCancellation(t *testing.T) {
	const workers, rounds = 16, 400
	b := New(Policy{MaxConcurrent: 2, MaxWaiting: workers})
	var inside gauge
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for i := range rounds {
				ctx, cancel := context.WithCancel(t.Context())
				if i%2 == 0 {
					go cancel()
				}
				slot, err := b.Acquire(ctx, time.Now(), time.Time{})
				if err == nil {
					inside.add(1)
					inside.add(-1)
					slot.Release(time.Now())
				} else if i%2 != 0 {
					t.Errorf("error %v for a call that was not cancelled", err)
				}
				cancel()
			}
		})
	}
	all.Wait()
	if inside.peak > 2 {
		t.Errorf("%d ran at once, want at most 2", inside.peak)
	}
	if s := b.Snapshot(time.Now()); s.InUse != 0 || s.Waiting != 0 {
		t.Errorf("not idle at the end: %+v", s)
	}
}
