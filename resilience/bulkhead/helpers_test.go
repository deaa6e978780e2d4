package bulkhead

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// call is one Acquire in a goroutine of its own.
type call struct {
	began  time.Time
	slot   Slot
	err    error
	after  time.Duration // from arrival to the end of Acquire
	ended  atomic.Bool
	cancel context.CancelCauseFunc
}

// start begins an Acquire and returns once it has ended or waits.
func start(t *testing.T, b *Bulkhead) *call {
	t.Helper()
	return startRecovered(t, b, time.Time{})
}

func startRecovered(t *testing.T, b *Bulkhead, recovered time.Time) *call {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	c := &call{began: time.Now(), cancel: cancel}
	go func() {
		c.slot, c.err = b.Acquire(ctx, c.began, recovered)
		c.after = time.Since(c.began)
		c.ended.Store(true)
	}()
	synctest.Wait()
	return c
}

// gauge counts the calls inside and remembers the most.
type gauge struct {
	mu        sync.Mutex
	now, peak int
}

func (g *gauge) add(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now += n
	g.peak = max(g.peak, g.now)
}

func (c *call) wantRunning(t *testing.T, after time.Duration) {
	t.Helper()
	synctest.Wait()
	if !c.ended.Load() || c.err != nil {
		t.Fatalf("call does not run: ended %v, error %v", c.ended.Load(), c.err)
	}
	if c.after != after {
		t.Fatalf("permit after %v, want %v", c.after, after)
	}
}

func (c *call) wantWaiting(t *testing.T) {
	t.Helper()
	synctest.Wait()
	if c.ended.Load() {
		t.Fatalf("call does not wait: ended with error %v", c.err)
	}
}

func (c *call) wantErr(t *testing.T, want error, after time.Duration) {
	t.Helper()
	synctest.Wait()
	if !c.ended.Load() || !errors.Is(c.err, want) {
		t.Fatalf("ended %v with error %v, want %v", c.ended.Load(), c.err, want)
	}
	if c.after != after {
		t.Fatalf("error after %v, want %v", c.after, after)
	}
}

func wantSnapshot(t *testing.T, b *Bulkhead, want Snapshot) {
	t.Helper()
	synctest.Wait()
	if got := b.Snapshot(time.Now()); got != want {
		t.Fatalf("snapshot\n got %+v\nwant %+v", got, want)
	}
}

func wantIdle(t *testing.T, b *Bulkhead) {
	t.Helper()
	synctest.Wait()
	if s := b.Snapshot(time.Now()); s.InUse != 0 || s.Waiting != 0 || s.OldestWait != 0 {
		t.Fatalf("bulkhead is not idle: %+v", s)
	}
}

func mustAcquire(t *testing.T, b *Bulkhead, now time.Time) *Slot {
	t.Helper()
	slot, err := b.Acquire(t.Context(), now, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return &slot
}

func wantInUse(t *testing.T, b *Bulkhead, want int) {
	t.Helper()
	if got := b.Snapshot(time.Now()).InUse; got != want {
		t.Fatalf("in use %d, want %d", got, want)
	}
}
