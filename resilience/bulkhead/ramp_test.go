package bulkhead

import (
	"context"
	"math/big"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// The limit grows from 1 by one at exact moments, rounded down in between.
func TestRampSteps(t *testing.T) {
	from := time.Now()
	b := New(Policy{MaxConcurrent: 5, Ramp: 10 * time.Second})
	slot, err := b.Acquire(t.Context(), from, from)
	if err != nil {
		t.Fatal(err)
	}
	slot.Release(from)
	for _, tt := range []struct {
		at    time.Duration
		limit int
	}{
		{-time.Second, 1}, {0, 1}, {2500*time.Millisecond - 1, 1}, {2500 * time.Millisecond, 2},
		{5*time.Second - 1, 2}, {5 * time.Second, 3}, {7500*time.Millisecond - 1, 3}, {7500 * time.Millisecond, 4},
		{10*time.Second - 1, 4}, {10 * time.Second, 5}, {time.Hour, 5},
	} {
		if got := b.Snapshot(from.Add(tt.at)).Limit; got != tt.limit {
			t.Errorf("limit %d at %v, want %d", got, tt.at, tt.limit)
		}
	}
}

// limit and next agree with exact arithmetic for all settings.
func TestRampIsExact(t *testing.T) {
	from := time.Now()
	rapid.Check(t, func(t *rapid.T) {
		full := rapid.IntRange(1, 1<<40).Draw(t, "full")
		span := time.Duration(rapid.Int64Range(1, 1<<60).Draw(t, "span"))
		elapsed := time.Duration(rapid.Int64Range(-5, int64(span)+5).Draw(t, "elapsed"))
		r := ramp{from: from, span: span}
		exact := func(elapsed time.Duration) int {
			e := big.NewInt(int64(min(max(elapsed, 0), span)))
			e.Mul(e, big.NewInt(int64(full-1)))
			e.Div(e, big.NewInt(int64(span)))
			return 1 + int(e.Int64())
		}
		got := r.limit(from.Add(elapsed), full)
		if want := exact(elapsed); got != want {
			t.Fatalf("limit %d, want %d", got, want)
		}
		next := r.next(from.Add(elapsed), full)
		if got == full {
			if !next.IsZero() {
				t.Fatalf("a step at %v though the limit is full", next.Sub(from))
			}
			return
		}
		at := next.Sub(from)
		if at <= elapsed || exact(at) <= got || exact(at-1) > got {
			t.Fatalf("next step at %v, limit %d there, %d before", at, exact(at), exact(at-1))
		}
	})
}

// Field: a ramp wakes waiters although no call ends.
func TestRampWakesWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Policy{MaxConcurrent: 5, MaxWaiting: 10, QueueTimeout: 9 * time.Second, Ramp: 10 * time.Second})
		recovered := time.Now()
		var calls []*call
		for range 6 {
			calls = append(calls, startRecovered(t, b, recovered))
		}
		wantSnapshot(t, b, Snapshot{Limit: 1, MaxConcurrent: 5, InUse: 1, Waiting: 5, MaxWaiting: 10})
		time.Sleep(20 * time.Second)
		for i := range 4 {
			calls[i].wantRunning(t, time.Duration(i)*2500*time.Millisecond)
		}
		// The fifth step comes at 10 s, after the queue timeout.
		calls[4].wantErr(t, ErrQueueTimeout, 9*time.Second)
		calls[5].wantErr(t, ErrQueueTimeout, 9*time.Second)
	})
}

// The front waiter keeps time for all; when it leaves, the next takes over.
func TestRampOutlivesItsTimekeeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Policy{MaxConcurrent: 3, MaxWaiting: 3, Ramp: 2 * time.Second})
		startRecovered(t, b, time.Now())
		front, next, last := start(t, b), start(t, b), start(t, b)
		time.Sleep(500 * time.Millisecond)
		front.cancel(context.Canceled)
		front.wantErr(t, context.Canceled, 500*time.Millisecond)
		time.Sleep(5 * time.Second)
		next.wantRunning(t, time.Second)
		last.wantRunning(t, 2*time.Second)
	})
}

// The same where the front leaves by its queue timeout.
func TestRampOutlivesATimekeeperThatTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := Policy{MaxConcurrent: 3, MaxWaiting: 3, QueueTimeout: 500 * time.Millisecond, Ramp: 2 * time.Second}
		b := New(p)
		startRecovered(t, b, time.Now())
		front := start(t, b)
		p.QueueTimeout = time.Minute
		b.SetPolicy(time.Now(), p)
		next := start(t, b)
		time.Sleep(5 * time.Second)
		front.wantErr(t, ErrQueueTimeout, 500*time.Millisecond)
		next.wantRunning(t, time.Second)
	})
}

// A step that is due serves the queue first, even when a newcomer arrives
// before the timekeeper's timer has fired; the newcomer takes the place in
// the queue that became free.
func TestDueStepServesTheQueueFirst(t *testing.T) {
	now := time.Now()
	q := queue{policy: Policy{MaxConcurrent: 2, MaxWaiting: 1, Ramp: time.Second}}
	if w, err := q.enter(now, now); w != nil || err != nil {
		t.Fatalf("enter = %v, %v, want a permit", w, err)
	}
	first, err := q.enter(now, now)
	if first == nil || err != nil {
		t.Fatalf("enter = %v, %v, want a waiter", first, err)
	}
	now = now.Add(time.Second)
	second, err := q.enter(now, time.Time{})
	if second == nil || err != nil {
		t.Fatalf("enter = %v, %v, want a waiter", second, err)
	}
	if !first.granted || second.granted || q.inUse != 2 {
		t.Fatalf("first granted %v, second %v, in use %d", first.granted, second.granted, q.inUse)
	}
}

// A ramp that begins while calls already wait, and has them wait on, still
// wakes them at its steps.
func TestRampBeginsWhileCallsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Policy{MaxConcurrent: 2, MaxWaiting: 2, Ramp: time.Second})
		one := start(t, b)
		start(t, b)
		waiter := start(t, b)
		time.Sleep(time.Second)
		late := startRecovered(t, b, time.Now())
		one.slot.Release(time.Now()) // In use 1, limit 1: nobody wakes yet.
		waiter.wantWaiting(t)
		time.Sleep(3 * time.Second)
		waiter.wantRunning(t, 2*time.Second)
		late.wantWaiting(t)
		late.cancel(context.Canceled)
		synctest.Wait()
	})
}

func TestOnlyALaterRecoveryStartsARamp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Policy{MaxConcurrent: 3, Ramp: 2 * time.Second})
		limit := func(want int) {
			t.Helper()
			if got := b.Snapshot(time.Now()).Limit; got != want {
				t.Fatalf("limit %d, want %d", got, want)
			}
		}
		pass := func(recovered time.Time) {
			t.Helper()
			slot, err := b.Acquire(t.Context(), time.Now(), recovered)
			if err != nil {
				t.Fatal(err)
			}
			slot.Release(time.Now())
		}
		pass(time.Time{})
		limit(3)
		first := time.Now()
		pass(first)
		limit(1)
		time.Sleep(time.Second)
		limit(2)
		pass(first)
		pass(first.Add(-time.Second))
		pass(time.Time{}) // A breaker in another mode: the ramp runs on.
		limit(2)
		time.Sleep(time.Second)
		limit(3)
		pass(first)
		limit(3)
		pass(first.Add(time.Second)) // Half over when first heard of.
		limit(2)
		time.Sleep(time.Second)
		limit(3)
		time.Sleep(time.Hour)
		pass(first.Add(time.Minute)) // Long over when first heard of.
		limit(3)

		// Over is over, also if the same ramp would now take longer.
		again := time.Now()
		pass(again)
		limit(1)
		time.Sleep(2 * time.Second)
		b.SetPolicy(time.Now(), Policy{MaxConcurrent: 3, Ramp: time.Hour})
		limit(3)
		pass(again)
		limit(3)
	})
}

func TestChangedRampRecomputesFromTheSameStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := Policy{MaxConcurrent: 11, MaxWaiting: 5, Ramp: 10 * time.Second}
		b := New(p)
		startRecovered(t, b, time.Now())
		waiter := start(t, b)
		limit := func(want int) {
			t.Helper()
			if got := b.Snapshot(time.Now()).Limit; got != want {
				t.Fatalf("limit %d, want %d", got, want)
			}
		}
		time.Sleep(500 * time.Millisecond)
		limit(1)
		p.Ramp = 40 * time.Second // A step every 4 s instead of every second.
		b.SetPolicy(time.Now(), p)
		time.Sleep(3500*time.Millisecond - 1)
		waiter.wantWaiting(t)
		time.Sleep(time.Nanosecond)
		waiter.wantRunning(t, 4*time.Second)
		limit(2)
		p.Ramp = 8 * time.Second // Half over.
		b.SetPolicy(time.Now(), p)
		limit(6)
		p.MaxConcurrent = 21
		b.SetPolicy(time.Now(), p)
		limit(11)
		p.Ramp = 0 // Ends it for good.
		b.SetPolicy(time.Now(), p)
		limit(21)
		p.Ramp = time.Hour
		b.SetPolicy(time.Now(), p)
		limit(21)
	})
}

// A shortened ramp brings its next step forward, or gives all at once.
func TestShortenedRampWakesSooner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Policy{MaxConcurrent: 4, MaxWaiting: 3, Ramp: time.Hour})
		startRecovered(t, b, time.Now())
		waiters := []*call{start(t, b), start(t, b), start(t, b)}
		time.Sleep(500 * time.Millisecond)
		b.SetPolicy(time.Now(), Policy{MaxConcurrent: 4, MaxWaiting: 3, Ramp: 3 * time.Second})
		waiters[0].wantWaiting(t)
		time.Sleep(500 * time.Millisecond)
		waiters[0].wantRunning(t, time.Second)
		waiters[1].wantWaiting(t)
		time.Sleep(time.Second)
		waiters[1].wantRunning(t, 2*time.Second)
		b.SetPolicy(time.Now(), Policy{MaxConcurrent: 4, MaxWaiting: 3})
		waiters[2].wantRunning(t, 2*time.Second)
	})
}

// A clock reading from before the recovery, taken by a call that was slow to
// arrive, is no reason to panic, whatever the ramp.
func TestRampWithAnEarlierClock(t *testing.T) {
	now := time.Now()
	for _, span := range []time.Duration{0, 1, time.Second} {
		b := New(Policy{MaxConcurrent: 2, Ramp: span})
		slot, err := b.Acquire(t.Context(), now, now.Add(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		slot.Release(now)
		wantInUse(t, b, 0)
	}
}

// A dependency without traffic shows its ramp from the recovery on: before, the
// limit stayed at the maximum until the first call and then fell to 1.
func TestRecoverWithoutTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Policy{MaxConcurrent: 11, Ramp: 10 * time.Second})
		recovered := time.Now()
		b.Recover(recovered)
		for _, step := range []struct {
			after time.Duration
			want  int
		}{{0, 1}, {5 * time.Second, 6}, {10 * time.Second, 11}} {
			if got := b.Snapshot(recovered.Add(step.after)).Limit; got != step.want {
				t.Errorf("after %v the limit is %d, want %d", step.after, got, step.want)
			}
		}
		b.Recover(time.Time{})
		b.Recover(recovered)
		if got := b.Snapshot(recovered.Add(20 * time.Second)).Limit; got != 11 {
			t.Errorf("an old recovery started the ramp again: %d", got)
		}
	})
}
