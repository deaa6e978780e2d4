package retry

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestDelay(t *testing.T) {
	const nearOne = 1 - 0x1p-53 // The largest r below 1.
	usual := Backoff{Base: 25 * time.Millisecond, Max: 250 * time.Millisecond}
	for _, tt := range []struct {
		name string
		b    Backoff
		n    int
		r    float64
		want time.Duration
	}{
		{"no jitter drawn", usual, 0, 0, 0},
		{"first, half", usual, 0, 0.5, 12500 * time.Microsecond},
		{"second, half", usual, 1, 0.5, 25 * time.Millisecond},
		{"fourth, half", usual, 3, 0.5, 100 * time.Millisecond},
		{"fifth is capped", usual, 4, 0.5, 125 * time.Millisecond},
		{"thousandth is capped", usual, 1000, 0.5, 125 * time.Millisecond},
		{"63rd does not overflow", Backoff{Base: 1, Max: math.MaxInt64}, 62, 0.5, 1 << 61},
		{"64th does not overflow", Backoff{Base: 1, Max: math.MaxInt64}, 63, 0.5, 1 << 62},
		{"largest of all", Backoff{Base: math.MaxInt64, Max: math.MaxInt64}, 1000, nearOne, math.MaxInt64 - 1023},
		{"r at its top", usual, 0, nearOne, 25*time.Millisecond - 1},
		{"r beyond its top", usual, 0, 2, 25 * time.Millisecond},
		{"r below its range", usual, 3, -1, 0},
		{"r not a number", usual, 3, math.NaN(), 0},
		{"n below its range", usual, -5, 0.5, 12500 * time.Microsecond},
		{"base above max", Backoff{Base: time.Second, Max: 100 * time.Millisecond}, 0, 0.5, 50 * time.Millisecond},
		{"no base", Backoff{Max: time.Second}, 5, 0.5, 0},
		{"no max", Backoff{Base: time.Second}, 5, 0.5, 0},
		{"negative max", Backoff{Base: time.Second, Max: -time.Second}, 5, 0.5, 0},
	} {
		if got := tt.b.Delay(tt.n, tt.r); got != tt.want {
			t.Errorf("%s: Delay(%d, %v) = %v, want %v", tt.name, tt.n, tt.r, got, tt.want)
		}
	}
}

// Every delay lies between 0 and its bound, and the bound grows by doubling.
func TestDelayBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := Backoff{
			Base: time.Duration(rapid.Int64Range(1, math.MaxInt64).Draw(t, "base")),
			Max:  time.Duration(rapid.Int64Range(1, math.MaxInt64).Draw(t, "max")),
		}
		n := rapid.IntRange(0, 2000).Draw(t, "n")
		r := rapid.Float64Range(0, math.Nextafter(1, 0)).Draw(t, "r")
		bound := min(float64(b.Max), math.Ldexp(float64(b.Base), n))
		got := b.Delay(n, r)
		if got < 0 || got > b.Max || math.Abs(float64(got)-r*bound) > 1+bound*0x1p-50 {
			t.Fatalf("Delay(%d, %v) = %d, want about %v", n, r, got, r*bound)
		}
	})
}

func TestAfter(t *testing.T) {
	now := time.Date(2026, time.March, 4, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		h    string
		want time.Duration
		ok   bool
	}{
		{"1", time.Second, true},
		{"120", 2 * time.Minute, true},
		{" \t7 ", 7 * time.Second, true},
		{"0", 0, true},
		{"007", 7 * time.Second, true},
		{"999999", 999999 * time.Second, true},
		{"9223372036", 9223372036 * time.Second, true},
		{"9223372037", math.MaxInt64, true},
		{"92233720360", math.MaxInt64, true},
		{"99999999999999999999999999", math.MaxInt64, true},

		{"Wed, 04 Mar 2026 12:00:30 GMT", 30 * time.Second, true},
		{"Wednesday, 04-Mar-26 12:00:30 GMT", 30 * time.Second, true},
		{"Wed Mar  4 12:00:30 2026", 30 * time.Second, true},
		{"Wed, 04 Mar 2026 12:00:00 GMT", 0, true},
		{"Fri, 31 Dec 9999 23:59:59 GMT", math.MaxInt64, true},
		// A two-digit year means the latest that is at most 50 years ahead
		// (RFC 9110 §5.6.7), so 75 is 2075 and 77 is 1977.
		{"Monday, 04-Mar-75 12:00:00 GMT", time.Date(2075, time.March, 4, 12, 0, 0, 0, time.UTC).Sub(now), true},
		{"Friday, 04-Mar-77 12:00:00 GMT", 0, false},

		{"Wed, 04 Mar 2026 11:59:59 GMT", 0, false},
		{"Wednesday, 04-Mar-26 11:59:59 GMT", 0, false},
		{"Wed Mar  4 11:59:59 2026", 0, false},
		{"", 0, false},
		{"  ", 0, false},
		{"-1", 0, false},
		{"+1", 0, false},
		{"1.5", 0, false},
		{"1s", 0, false},
		{"1, 2", 0, false},
		{"99999999999999999999x", 0, false},
		{"soon", 0, false},
		{"Wed, 04 Mar 2026 13:00:00 CET", 0, false},
		{"Wed, 31 Feb 2027 13:00:00 GMT", 0, false},
		{"2027-03-04T12:00:00Z", 0, false},
	} {
		if got, ok := After(tt.h, now); got != tt.want || ok != tt.ok {
			t.Errorf("After(%q) = %v, %v, want %v, %v", tt.h, got, ok, tt.want, tt.ok)
		}
	}
}

// A two-digit year more than 50 years ahead belongs to the century before; in
// the last years of a century it may belong to the next. The time zone of now
// does not matter.
func TestAfterAtTheEndOfACentury(t *testing.T) {
	if got, ok := After("Thursday, 01-Jan-60 00:00:00 GMT", time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)); ok {
		t.Errorf("After = %v for a date of 1960, want none", got)
	}
	zone := time.FixedZone("far east", 9*60*60)
	now := time.Date(2100, time.January, 1, 8, 59, 0, 0, zone) // 2099-12-31 23:59 GMT.
	for h, want := range map[string]time.Duration{
		"Friday, 01-Jan-00 00:00:00 GMT":   time.Minute,
		"Thursday, 31-Dec-99 23:59:30 GMT": 30 * time.Second,
	} {
		if got, ok := After(h, now); !ok || got != want {
			t.Errorf("After(%q) = %v, %v, want %v", h, got, ok, want)
		}
	}
}

// After takes headers from the network: whatever they hold, it returns a
// duration from 0.
func FuzzAfter(f *testing.F) {
	for _, h := range []string{"", "7", "99999999999999999999", "Wed, 04 Mar 2026 12:00:30 GMT", "Wed Mar  4 12:00:30 2026", "Friday, 29-Feb-00 12:00:00 GMT"} {
		f.Add(h)
	}
	f.Fuzz(func(t *testing.T, h string) {
		d, ok := After(h, time.Date(2026, time.March, 4, 12, 0, 0, 0, time.UTC))
		if d < 0 || (!ok && d != 0) {
			t.Errorf("After(%q) = %v, %v", h, d, ok)
		}
	})
}
