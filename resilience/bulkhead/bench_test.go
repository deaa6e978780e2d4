package bulkhead

import (
	"context"
	"testing"
	"time"
)

func TestNoAllocationWithoutWaiting(t *testing.T) {
	now := time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b := New(Policy{MaxConcurrent: 20, MaxWaiting: 10, QueueTimeout: time.Second, Ramp: time.Hour})
	full := New(Policy{MaxConcurrent: 1})
	if _, err := full.Acquire(ctx, now, time.Time{}); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(1000, func() {
		slot, err := b.Acquire(ctx, now, now.Add(-time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		slot.Release(now)
		if _, err := full.Acquire(ctx, now, time.Time{}); err == nil {
			t.Fatal("a full bulkhead gave a permit")
		}
	}); n != 0 {
		t.Errorf("%v allocations for a permit and a refusal, want 0", n)
	}
}

func BenchmarkAcquireRelease(b *testing.B) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	now := time.Now()
	for _, bm := range []struct {
		name      string
		ramp      time.Duration
		recovered time.Time
	}{
		{"plain", 0, time.Time{}},
		{"ramp over", time.Second, now.Add(-time.Minute)},
		{"ramp running", time.Hour, now.Add(-time.Minute)},
	} {
		b.Run(bm.name, func(b *testing.B) {
			h := New(Policy{MaxConcurrent: 20, MaxWaiting: 10, Ramp: bm.ramp})
			b.ReportAllocs()
			for b.Loop() {
				slot, err := h.Acquire(ctx, now, bm.recovered)
				if err != nil {
					b.Fatal(err)
				}
				slot.Release(now)
			}
		})
	}
}

func BenchmarkAcquireReleaseParallel(b *testing.B) {
	now := time.Now()
	h := New(Policy{MaxConcurrent: 1 << 20})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			slot, err := h.Acquire(context.Background(), now, time.Time{})
			if err != nil {
				b.Error(err)
				return
			}
			slot.Release(now)
		}
	})
}

func BenchmarkRefused(b *testing.B) {
	now := time.Now()
	h := New(Policy{MaxConcurrent: 1})
	if _, err := h.Acquire(b.Context(), now, time.Time{}); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := h.Acquire(b.Context(), now, time.Time{}); err == nil {
			b.Fatal("a full bulkhead gave a permit")
		}
	}
}

// Handing a permit from one goroutine to a waiter and back.
func BenchmarkHandover(b *testing.B) {
	h := New(Policy{MaxConcurrent: 1, MaxWaiting: 64, QueueTimeout: time.Minute})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			slot, err := h.Acquire(context.Background(), time.Now(), time.Time{})
			if err != nil {
				b.Error(err)
				return
			}
			slot.Release(time.Now())
		}
	})
}

// The yardstick: a semaphore made of a buffered channel, which has no queue
// bound, no ramp and no resizing.
func BenchmarkChannelSemaphore(b *testing.B) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	sem := make(chan struct{}, 20)
	b.ReportAllocs()
	for b.Loop() {
		select {
		case sem <- struct{}{}:
		case <-ctx.Done():
			b.Fatal(ctx.Err())
		}
		<-sem
	}
}
