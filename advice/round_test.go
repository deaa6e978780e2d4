package advice

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sidecar/config"
)

func TestRounding(t *testing.T) {
	for x, want := range map[float64][2]int{0: {1, 1}, 1: {1, 1}, 1.1: {2, 1}, 4: {4, 4}, 9: {10, 8}, 11: {12, 10}, 13: {15, 12}, 19.49: {20, 15}, 101: {120, 100}, 1200: {1200, 1200}} {
		if got := [2]int{upCount(x), downCount(x)}; got != want {
			t.Errorf("%v is rounded to %v, want %v", x, got, want)
		}
	}
	for d, want := range map[time.Duration]time.Duration{
		0: time.Millisecond, 300 * time.Microsecond: time.Millisecond, 96 * time.Millisecond: 100 * time.Millisecond,
		1300 * time.Millisecond: 1500 * time.Millisecond, 11 * time.Second: 12 * time.Second, 31 * time.Second: time.Minute,
		4 * time.Minute: 5 * time.Minute, 61 * time.Minute: 2 * time.Hour,
	} {
		if got := upDuration(d); got != want {
			t.Errorf("%v is rounded up to %v, want %v", d, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float64Range(1, 1e6).Draw(t, "x")
		if u, d := upCount(x), downCount(x); float64(u) < x-1e-6 || float64(u) > 1.5*x+1 || float64(d) > x+1e-6 || float64(d) < x/1.5-1 {
			t.Errorf("%v lies between %d and %d", x, d, u)
		}
		l := time.Duration(x * float64(time.Millisecond))
		if u := upDuration(l); u < l || u > 2*l+time.Millisecond {
			t.Errorf("%v is rounded up to %v", l, u)
		}
		if d := downDuration(l); d > l || 2*d < l {
			t.Errorf("%v is rounded down to %v", l, d)
		}
	})
}

func TestWords(t *testing.T) {
	for got, want := range map[string]string{
		shown(48234567): "48ms", shown(1234567890): "1.2s", shown(999): "1µs", shown(90 * time.Second): "1m30s",
		some(1, "call"): "1 call", some(1234567, "call"): "1,234,567 calls", share(1, 3): "33 %", share(0, 0): "0 %",
		span(90 * time.Second): "90 s", span(755 * time.Second): "13 minutes", number(12.345): "12.3",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestInclude(t *testing.T) {
	set := func(terms ...config.StatusTerm) config.Statuses { return terms }
	for _, c := range []struct {
		s         config.Statuses
		low, high int
		want      []string
	}{
		{set(), 429, 429, []string{"429"}},
		{set(config.StatusTerm{Low: 500, High: 599}), 503, 503, []string{"500-599"}},
		{set(config.StatusTerm{Low: 500, High: 599}, config.StatusTerm{Low: 503, High: 503, Not: true}), 503, 503, []string{"500-599"}},
		{set(config.StatusTerm{Low: 500, High: 505}, config.StatusTerm{Low: 500, High: 599, Not: true}), 506, 599, []string{"500-505", "!500-505", "506-599"}},
	} {
		got := include(c.s, c.low, c.high)
		if !slices.Equal(terms(got), c.want) || !got.Match(c.low) || !got.Match(c.high) {
			t.Errorf("%v with %d-%d is %v, want %v", terms(c.s), c.low, c.high, terms(got), c.want)
		}
	}
}
