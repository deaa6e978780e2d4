package telemetry

import (
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"sidecar/proxy"
)

// TestLatencyMatchesExactQuantiles compares the window with the sorted
// durations: by the same rank, at most 1/32 off, and below 1.024 µs at most
// 0.512 µs.
func TestLatencyMatchesExactQuantiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		exponents := rapid.SliceOfN(rapid.Float64Range(0, 11.1), 1, 400).Draw(t, "log10 ns")
		var l latency
		var exact []time.Duration
		for _, e := range exponents {
			d := time.Duration(math.Pow(10, e))
			exact = append(exact, d)
			l.record(time.Second, d)
		}
		slices.Sort(exact)
		for _, q := range []float64{0.001, 0.5, 0.9, 0.99, 1} {
			got, ok := l.quantiles(time.Second, q)
			if !ok {
				t.Fatal("no quantile of recorded calls")
			}
			want := exact[int(math.Ceil(q*float64(len(exact))))-1]
			off := (got[0] - want).Abs()
			if off > max(want/32, 512) {
				t.Fatalf("quantile %v of %d is %v, want %v within 1/32", q, len(exact), got[0], want)
			}
		}
	})
}

func TestLatencyBuckets(t *testing.T) {
	for b := range bucketCount {
		if got := bucketOf(middleOf(b)); got != b {
			t.Fatalf("the middle of bucket %d, %v, lies in bucket %d", b, middleOf(b), got)
		}
	}
	for _, d := range []time.Duration{-1, 0, 1023} {
		if got := bucketOf(d); got != 0 {
			t.Errorf("%d ns lies in bucket %d, want 0", d, got)
		}
	}
	if got := bucketOf(math.MaxInt64); got != bucketCount-1 {
		t.Errorf("the longest duration lies in bucket %d, want the last", got)
	}
}

// TestLatencyForgets drives the window over its whole span.
func TestLatencyForgets(t *testing.T) {
	var l latency
	if _, ok := l.quantiles(0, 0.5); ok {
		t.Error("an empty window has a median")
	}
	l.record(5*time.Second, time.Second)
	l.record(65*time.Second, time.Millisecond)
	l.record(66*time.Second, time.Millisecond)
	steps := []struct {
		now  time.Duration
		want time.Duration // largest value, 0 for none
	}{
		{66 * time.Second, time.Second},
		{69*time.Second + 999*time.Millisecond, time.Second},
		{70 * time.Second, time.Millisecond}, // 65 s after it ended
		{129 * time.Second, time.Millisecond},
		{130 * time.Second, 0},
		{time.Hour, 0},
	}
	for _, s := range steps {
		got, ok := l.quantiles(s.now, 1)
		if ok != (s.want != 0) || ok && (got[0]-s.want).Abs() > s.want/32 {
			t.Errorf("at %v the largest is %v (any: %v), want about %v", s.now, got, ok, s.want)
		}
	}
	l.record(time.Hour, 8*time.Millisecond) // a slot used before, for a new turn
	if got, ok := l.quantiles(time.Hour, 0.001, 1); !ok || got[0] != got[1] {
		t.Errorf("after an hour the window holds %v, want the last call alone", got)
	}
}

// TestLatencyLosesNothing has many goroutines meet at a slot's turn.
func TestLatencyLosesNothing(t *testing.T) {
	const workers, each = 8, 2000
	var l latency
	for i := range latencySlots {
		l.record(time.Duration(i)*slotSpan, time.Hour) // Fill what must be cleared.
	}
	now := latencySlots * slotSpan
	start := make(chan struct{})
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			<-start
			for range each {
				l.record(now, time.Millisecond)
			}
		})
	}
	close(start)
	wg.Wait()
	var n uint32
	s := &l.slots[turnAt(now)%latencySlots]
	for b := range s.counts {
		n += s.counts[b].Load()
	}
	if n != workers*each {
		t.Errorf("the slot holds %d calls, want %d", n, workers*each)
	}
}

func TestLatencyOfADependency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tele := New(Options{})
		tele.Add("a")
		if _, _, ok := tele.Latency("a"); ok {
			t.Error("a latency before the first call")
		}
		for range 98 {
			tele.CallDone(proxy.Call{Dependency: "a", Outcome: proxy.OutcomeOK, Duration: 4 * time.Millisecond})
		}
		for range 2 {
			tele.CallDone(proxy.Call{Dependency: "a", Outcome: proxy.OutcomeFailed, Duration: time.Second})
		}
		for range 50 {
			tele.CallDone(proxy.Call{Dependency: "a", Outcome: proxy.OutcomeOK, Duration: time.Hour, Stream: true})
		}
		p50, p99, ok := tele.Latency("a")
		if !ok || (p50-4*time.Millisecond).Abs() > 125*time.Microsecond || (p99-time.Second).Abs() > time.Second/32 {
			t.Errorf("latency is %v, %v (%v), want about 4ms and 1s", p50, p99, ok)
		}
		time.Sleep(70 * time.Second)
		if _, _, ok := tele.Latency("a"); ok {
			t.Error("calls of 70 s ago still count")
		}
	})
}
