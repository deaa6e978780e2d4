package retry

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// script drives a budget in time of its own.
type script struct {
	t   *testing.T
	b   *Budget
	now time.Time
}

func newScript(t *testing.T, p BudgetPolicy) *script {
	return &script{t: t, b: NewBudget(p), now: time.Now()}
}

func (s *script) wait(d time.Duration) { s.now = s.now.Add(d) }

func (s *script) calls(n int) {
	for range n {
		s.b.Call(s.now)
	}
}

// granted asks until it is refused (at most 1000 times) and checks how often
// it was not.
func (s *script) granted(want int) {
	s.t.Helper()
	got := 0
	for got < 1000 && s.b.Retry(s.now) {
		got++
	}
	if got != want {
		s.t.Fatalf("%d retries granted, want %d", got, want)
	}
}

func TestBudgetByRatio(t *testing.T) {
	s := newScript(t, BudgetPolicy{Ratio: 0.2, MinPerSecond: 3})
	s.calls(100)
	s.granted(20)
	s.wait(500 * time.Millisecond)
	s.calls(10)
	s.granted(2)
	// The first hundred are gone with the retries they allowed.
	s.wait(500*time.Millisecond + bucket)
	s.granted(1) // 3 at least, 2 of them spent.
	s.calls(40)
	s.granted(7) // 0.2 × 50 less 3.
}

// A call counts in the bucket in which it begins: for a second, less up to one
// bucket.
func TestBudgetCallsLeaveOneByOne(t *testing.T) {
	s := newScript(t, BudgetPolicy{Ratio: 1})
	s.calls(1)
	s.wait(bucket - 1)
	s.calls(1)
	s.wait(1)
	s.calls(1)
	s.wait(time.Second - bucket - 1)
	s.granted(3)
	s = newScript(t, BudgetPolicy{Ratio: 1})
	s.calls(2)
	s.wait(bucket)
	s.calls(1)
	s.wait(time.Second - bucket)
	s.granted(1)
	s.wait(bucket)
	s.granted(0)
}

func TestBudgetMinimum(t *testing.T) {
	s := newScript(t, BudgetPolicy{Ratio: 0.2, MinPerSecond: 3})
	s.granted(3)
	s.calls(15)
	s.granted(0) // The larger of the two, not their sum.
	s.wait(time.Second - 1)
	s.granted(0)
	s.wait(bucket + 1)
	s.granted(3)
	s.wait(time.Hour)
	s.granted(3)
}

func TestBudgetSpent(t *testing.T) {
	newScript(t, BudgetPolicy{}).granted(0)
	s := newScript(t, BudgetPolicy{Ratio: 0.5})
	s.granted(0)
	s.calls(1)
	s.granted(0)
	s.calls(1)
	s.granted(1)
	s = newScript(t, BudgetPolicy{Ratio: 0.29})
	s.calls(100)
	s.granted(29) // Not 28, as binary fractions would have it.
}

func TestBudgetSetPolicyKeepsCounts(t *testing.T) {
	s := newScript(t, BudgetPolicy{Ratio: 0.2})
	s.calls(50)
	s.granted(10)
	s.b.SetPolicy(BudgetPolicy{Ratio: 0.3})
	s.granted(5)
	s.b.SetPolicy(BudgetPolicy{Ratio: 0.1, MinPerSecond: 16})
	s.granted(1)
}

// A clock reading that arrives late counts as the latest one: it neither
// brings old counts back nor loses its own.
func TestBudgetEarlierClock(t *testing.T) {
	s := newScript(t, BudgetPolicy{Ratio: 0.5})
	s.calls(2)
	s.wait(-time.Minute)
	s.calls(2)
	s.granted(2)
	s.wait(time.Minute + time.Second - bucket)
	s.calls(4)
	s.wait(-time.Second)
	s.granted(2)
}

// event is one call or request for a retry.
type event struct {
	after time.Duration
	retry bool
}

// Against exact times: in every second that ends with a granted retry, the
// retries are within the bound that its calls allow; and none is refused that
// a second shorter or longer by a bucket would still allow.
func TestBudgetModel(t *testing.T) {
	gap := rapid.OneOf(
		rapid.Just(time.Duration(0)),
		rapid.SampledFrom([]time.Duration{1, bucket - 1, bucket, bucket + 1, time.Second - 1, time.Second, time.Second + bucket}),
		rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.Int64Range(0, int64(time.Second/10)).Draw(t, "gap"))
		}),
	)
	events := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) event {
		return event{gap.Draw(t, "after"), rapid.Bool().Draw(t, "retry")}
	}), 20, 300)
	rapid.Check(t, func(t *rapid.T) {
		percent := rapid.IntRange(0, 100).Draw(t, "percent")
		least := rapid.IntRange(0, 5).Draw(t, "least")
		b := NewBudget(BudgetPolicy{Ratio: float64(percent) / 100, MinPerSecond: least})
		start := time.Now()
		now := time.Duration(0)
		var calls, retries []time.Duration
		since := func(times []time.Duration, from time.Duration) (n int) {
			for _, at := range times {
				if at >= from {
					n++
				}
			}
			return n
		}
		bound := func(calls int) int { return max(least, calls*percent/100) }
		for _, e := range events.Draw(t, "events") {
			now += e.after
			if !e.retry {
				b.Call(start.Add(now))
				calls = append(calls, now)
				continue
			}
			if b.Retry(start.Add(now)) {
				retries = append(retries, now)
				// The second is closed for retries, half open for calls: the
				// harder of the readings.
				if got, most := since(retries, now-time.Second), bound(since(calls, now-time.Second+1)); got > most {
					t.Fatalf("%d retries in the second up to %v, want at most %d", got, now, most)
				}
			} else if 1+since(retries, now-time.Second-bucket) <= bound(since(calls, now-time.Second+bucket)) {
				t.Fatalf("refused at %v with budget left", now)
			}
		}
	})
}

func TestBudgetConcurrent(t *testing.T) {
	now := time.Now()
	b := NewBudget(BudgetPolicy{Ratio: 0.1, MinPerSecond: 1})
	var granted atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 500 { // buckets end while others call
				now := now.Add(time.Duration(i) * time.Millisecond)
				b.Call(now)
				if b.Retry(now) {
					granted.Add(1)
				}
			}
		})
	}
	all.Wait()
	// The last calls may have come after the last question.
	for b.Retry(now) {
		granted.Add(1)
	}
	if got := granted.Load(); got != 400 {
		t.Errorf("%d retries granted for 4000 calls, want 400", got)
	}
}

func TestBudgetDoesNotAllocate(t *testing.T) {
	b := NewBudget(BudgetPolicy{Ratio: 0.2, MinPerSecond: 3})
	now := time.Now()
	if n := testing.AllocsPerRun(1000, func() {
		now = now.Add(time.Millisecond)
		b.Call(now)
		b.Retry(now)
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func BenchmarkBudget(b *testing.B) {
	for _, bm := range []struct {
		name string
		step time.Duration
	}{{"10000 calls a second", 100 * time.Microsecond}, {"1 call a second", time.Second}} {
		b.Run(bm.name, func(b *testing.B) {
			budget := NewBudget(BudgetPolicy{Ratio: 0.2, MinPerSecond: 3})
			now := time.Now()
			b.ReportAllocs()
			for b.Loop() {
				now = now.Add(bm.step)
				budget.Call(now)
				budget.Retry(now)
			}
		})
	}
}

func BenchmarkBudgetCall(b *testing.B) {
	budget, start := NewBudget(BudgetPolicy{Ratio: 0.2, MinPerSecond: 10}), time.Now()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for now := start; pb.Next(); now = now.Add(time.Microsecond) {
			budget.Call(now)
		}
	})
}

func BenchmarkDelay(b *testing.B) {
	backoff := Backoff{Base: 25 * time.Millisecond, Max: 250 * time.Millisecond}
	b.ReportAllocs()
	for b.Loop() {
		backoff.Delay(3, 0.5)
	}
}
