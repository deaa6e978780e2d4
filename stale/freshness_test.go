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
