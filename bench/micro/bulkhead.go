package main

import (
	"context"
	"errors"
	"time"

	failsafebulkhead "github.com/failsafe-go/failsafe-go/bulkhead"
	"golang.org/x/sync/semaphore"

	"sidecar/resilience/bulkhead"
)

// limit is the number of permits; more than there are goroutines here.
const limit = 20

// bulkheadRows are a permit taken and given back, and a refusal. The context can
// end, as that of a call can.
func bulkheadRows() []row {
	return []row{
		{
			"bulkhead, permit free",
			"A permit of 20 is taken under a context that can end, and given back.",
			[]entry{oursFree(0), failsafeFree(), weightedFree(), channelFree(), oursFree(2)},
		},
		{
			"bulkhead, refused",
			"The only permit is taken and nobody may wait. Ours looks whether the context has ended, " +
				"as failsafe-go does when it is given one; the others are tried without one.",
			[]entry{oursFull(), failsafeFull(), failsafeTried(), weightedFull(), channelFull()},
		},
	}
}

// endable is a context that can end, and does so with the program.
var endable, end = context.WithCancel(context.Background())

func oursFree(clocks int) entry {
	return entry{who: "sidecar", clocks: clocks, ours: true, make: func() func(int) {
		ctx, now := endable, time.Now()
		b := bulkhead.New(bulkhead.Policy{MaxConcurrent: limit, MaxWaiting: limit, QueueTimeout: time.Second, Ramp: time.Second})
		return func(int) {
			arrived, left := now, now
			if clocks > 0 {
				arrived = time.Now()
			}
			slot, err := b.Acquire(ctx, arrived, time.Time{})
			must(err == nil)
			if clocks > 1 {
				left = time.Now()
			}
			slot.Release(left)
		}
	}}
}

func failsafeFree() entry {
	return entry{who: "failsafe-go", make: func() func(int) {
		ctx, b := endable, failsafebulkhead.New[any](limit)
		return func(int) {
			must(b.AcquirePermitWithMaxWait(ctx, time.Second) == nil)
			b.ReleasePermit()
		}
	}}
}

func weightedFree() entry {
	return entry{who: "x/sync/semaphore", make: func() func(int) {
		ctx, b := endable, semaphore.NewWeighted(limit)
		return func(int) {
			must(b.Acquire(ctx, 1) == nil)
			b.Release(1)
		}
	}}
}

func channelFree() entry {
	return entry{who: "channel", make: func() func(int) {
		ctx, b := endable, make(chan struct{}, limit)
		return func(int) {
			select {
			case b <- struct{}{}:
			case <-ctx.Done():
				must(false)
			}
			<-b
		}
	}}
}

func oursFull() entry {
	return entry{who: "sidecar", ours: true, make: func() func(int) {
		ctx, now := endable, time.Now()
		b := bulkhead.New(bulkhead.Policy{MaxConcurrent: 1})
		_, err := b.Acquire(ctx, now, time.Time{})
		must(err == nil)
		_, err = b.Acquire(ctx, now, time.Time{})
		must(errors.Is(err, bulkhead.ErrFull))
		return func(int) {
			_, err := b.Acquire(ctx, now, time.Time{})
			must(err != nil)
		}
	}}
}

func failsafeFull() entry {
	return entry{who: "failsafe-go", make: func() func(int) {
		ctx, b := endable, failsafebulkhead.New[any](1)
		must(b.TryAcquirePermit())
		must(errors.Is(b.AcquirePermitWithMaxWait(ctx, 0), failsafebulkhead.ErrFull))
		return func(int) { must(b.AcquirePermitWithMaxWait(ctx, 0) != nil) }
	}}
}

func failsafeTried() entry {
	return entry{who: "failsafe-go, without a context", aside: true, make: func() func(int) {
		b := failsafebulkhead.New[any](1)
		must(b.TryAcquirePermit())
		return func(int) { must(!b.TryAcquirePermit()) }
	}}
}

func weightedFull() entry {
	return entry{who: "x/sync/semaphore, without a context", aside: true, make: func() func(int) {
		b := semaphore.NewWeighted(1)
		must(b.TryAcquire(1))
		return func(int) { must(!b.TryAcquire(1)) }
	}}
}

func channelFull() entry {
	return entry{who: "channel, without a context", aside: true, make: func() func(int) {
		b := make(chan struct{}, 1)
		b <- struct{}{}
		return func(int) {
			select {
			case b <- struct{}{}:
				must(false)
			default:
			}
		}
	}}
}
