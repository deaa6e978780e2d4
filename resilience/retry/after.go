package retry

import (
	"math"
	"strings"
	"time"
)

// The three forms of an HTTP-date (RFC 9110 §5.6.7), always in GMT.
const (
	imfFixdate = "Mon, 02 Jan 2006 15:04:05 GMT"
	rfc850     = "Monday, 02-Jan-06 15:04:05 GMT"
	asctime    = "Mon Jan _2 15:04:05 2006"
)

// After returns how long after now a Retry-After header's value h asks to
// wait (RFC 9110 §10.2.3): a whole number of seconds, or an HTTP-date. It
// returns false where h asks for nothing: empty, malformed, negative, or a
// date that has passed. "0" is a valid wish to retry at once. A number too
// large for a Duration is the longest Duration.
func After(h string, now time.Time) (time.Duration, bool) {
	h = strings.Trim(h, " \t")
	if h == "" {
		return 0, false
	}
	if d, ok := seconds(h); ok {
		return d, true
	}
	at, ok := date(h, now)
	if !ok {
		return 0, false
	}
	wait := at.Sub(now)
	return max(wait, 0), wait >= 0
}

// seconds reads delay-seconds: digits only.
func seconds(h string) (time.Duration, bool) {
	const most = math.MaxInt64 / int64(time.Second)
	n := int64(0)
	for i := range len(h) {
		c := h[i]
		if c < '0' || c > '9' {
			return 0, false
		}
		if n <= most {
			n = n*10 + int64(c-'0')
		}
	}
	if n > most {
		return math.MaxInt64, true
	}
	return time.Duration(n) * time.Second, true
}

// date reads an HTTP-date.
func date(h string, now time.Time) (time.Time, bool) {
	if t, err := time.Parse(imfFixdate, h); err == nil {
		return t, true
	}
	if t, err := time.Parse(asctime, h); err == nil {
		return t, true
	}
	t, err := time.Parse(rfc850, h)
	if err != nil {
		return time.Time{}, false
	}
	// A two-digit year is the latest one that is at most 50 years ahead.
	latest := now.AddDate(50, 0, 0)
	for t.After(latest) {
		t = t.AddDate(-100, 0, 0)
	}
	for next := t.AddDate(100, 0, 0); !next.After(latest); next = t.AddDate(100, 0, 0) {
		t = next
	}
	return t, true
}
