package stale

import (
	"testing"
	"time"
)

// A caller's own Cache-Control bounds what it gets: a copy of 20 s that was
// fresh for 10 s.
func TestCallersWishes(t *testing.T) {
	for _, c := range []struct {
		line string
		want bool
	}{
		{"Accept: a", true},
		{"Cache-Control: no-cache", false},
		{"Pragma: no-cache", false},
		{"Pragma: x", true},
		{"Cache-Control: no-store", true},
		{"Cache-Control: only-if-cached", true},
		{"Cache-Control: max-age=19", false},
		{"Cache-Control: max-age=20", true},
		{"Cache-Control: max-age=0", false},
		{"Cache-Control: max-age=0, max-stale", true},
		{"Cache-Control: max-age=0, stale-if-error=10", true},
		{"Cache-Control: max-age=0, stale-if-error=9", false},
		{"Cache-Control: max-stale", true},
		{"Cache-Control: max-stale=10", true},
		{"Cache-Control: max-stale=9", false},
		{"Cache-Control: max-stale=x", false},
		{"Cache-Control: stale-if-error=10", true},
		{"Cache-Control: stale-if-error=9", false},
		{"Cache-Control: min-fresh=0", false},
	} {
		f := freshness{lifetime: 10 * time.Second, staleIfError: -1}
		if got := f.allows(20*time.Second, time.Hour, wishes(fields(c.line))); got != c.want {
			t.Errorf("%s: %v", c.line, got)
		}
	}
	f := freshness{lifetime: 10 * time.Second, staleIfError: -1}
	for line, want := range map[string]bool{"Cache-Control: min-fresh=5": true, "Cache-Control: min-fresh=6": false} {
		if got := f.allows(5*time.Second, time.Hour, wishes(fields(line))); got != want {
			t.Errorf("%s: %v", line, got)
		}
	}
	// Pragma is for those without Cache-Control, RFC 9111 §5.4.
	if !f.allows(5*time.Second, time.Hour, wishes(fields("Pragma: no-cache", "Cache-Control: max-age=5"))) {
		t.Error("Pragma counts beside Cache-Control")
	}
}

// Ages, dates and doubled directives that are not as they should be are read
// the careful way.
func TestOddFields(t *testing.T) {
	bubble(t, func(r *rig) {
		const now = "Sat, 01 Jan 2000 00:00:00 GMT"
		for _, c := range []struct {
			lines         []string
			age, lifetime time.Duration
		}{
			{[]string{"Age: 7200, 0"}, 2 * time.Hour, 0},
			{[]string{"Age: 2147483648"}, 1 << 31 * time.Second, 0},
			{[]string{"Age: 99999999999999999999"}, 1 << 31 * time.Second, 0},
			{[]string{"Age: -1"}, 0, 0},
			{[]string{"Age: 1.5"}, 0, 0},
			{[]string{"Cache-Control: max-age=1, max-age=3600"}, 0, time.Second},
			{[]string{"Cache-Control: max-age=1", "Cache-Control: max-age=3600"}, 0, time.Second},
			{[]string{"Date: " + now, "Expires: Sat, 01 Jan 2000 00:00:30 GMT"}, 0, 30 * time.Second},
			{[]string{"Expires: Sat, 01 Jan 2000 00:00:30 GMT"}, 0, 30 * time.Second},
			{[]string{"Date: x", "Expires: Sat, 01 Jan 2000 00:00:30 GMT"}, 0, 30 * time.Second},
			{[]string{"Expires: Saturday, 01-Jan-00 00:00:30 GMT"}, 0, 30 * time.Second},
			{[]string{"Expires: Sat Jan  1 00:00:30 2000"}, 0, 30 * time.Second},
			{[]string{"Expires: Sat,  01 Jan 2000 00:00:30 GMT"}, 0, 0},
			{[]string{"Expires: Sat, 01 Jan 2000 0:00:30 GMT"}, 0, 0},
			{[]string{"Expires: Sat, 01 Jan 2000 00:00:30 GMT", "Expires: Sat, 01 Jan 2000 00:00:30 GMT"}, 0, 0},
		} {
			f := freshnessOf(fields(c.lines...), time.Now(), time.Now())
			if f.initialAge != c.age || f.lifetime != c.lifetime {
				r.Errorf("%q: age %v, lifetime %v; want %v, %v", c.lines, f.initialAge, f.lifetime, c.age, c.lifetime)
			}
		}
		// An answer without a date has that of its arrival.
		r.keep(given{body: "body"})
		time.Sleep(time.Minute)
		if got := r.shelf.Find("/x", asked(nil), time.Now(), time.Hour, nil).Header().Get("Date"); got != now {
			r.Errorf("Date: %s", got)
		}
	})
}
