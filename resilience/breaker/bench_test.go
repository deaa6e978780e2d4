package breaker_test

import (
	"testing"
	"time"

	"sidecar/resilience/breaker"
)

var shapes = map[string]breaker.Window{
	"calls": {Calls: 20},
	"span":  {Span: 30 * time.Second},
}

// quiet returns a breaker that the calls below do not trip, and one that is
// open.
func quiet(w breaker.Window) *breaker.Breaker {
	p := slowRule(1)
	p.Window = w
	return breaker.New(start, p, nil)
}

func tripped() *breaker.Breaker {
	b := breaker.New(start, inARow(1, time.Minute, 1), nil)
	p, _ := b.Allow(start)
	p.Done(start, failure)
	return b
}

func TestNoAllocation(t *testing.T) {
	for name, w := range shapes {
		b, now := quiet(w), start
		if n := testing.AllocsPerRun(1000, func() {
			now = now.Add(10 * time.Millisecond)
			p, _ := b.Allow(now)
			defer p.Done(now, ignored)
			p.Done(now, success)
		}); n != 0 {
			t.Errorf("window of %s: %v allocations per call", name, n)
		}
	}
	b := tripped()
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := b.Allow(start); err == nil {
			t.Error("admitted")
		}
	}); n != 0 {
		t.Errorf("%v allocations per refusal", n)
	}
}

func BenchmarkAllowDone(b *testing.B) {
	for name, w := range shapes {
		b.Run(name, func(b *testing.B) {
			br, now := quiet(w), time.Now()
			b.ReportAllocs()
			for b.Loop() {
				p, _ := br.Allow(now)
				p.Done(now, success)
			}
		})
	}
}

func BenchmarkAllowDoneParallel(b *testing.B) {
	for name, w := range shapes {
		b.Run(name, func(b *testing.B) {
			br, now := quiet(w), time.Now()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					p, _ := br.Allow(now)
					p.Done(now, success)
				}
			})
		})
	}
}

func BenchmarkRefused(b *testing.B) {
	br := tripped()
	b.ReportAllocs()
	for b.Loop() {
		_, _ = br.Allow(start)
	}
}

func BenchmarkRefusedParallel(b *testing.B) {
	br := tripped()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			_, _ = br.Allow(start)
		}
	})
}
