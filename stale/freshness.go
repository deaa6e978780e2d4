package stale

import (
	"net/http"
	"strings"
	"time"
)

// freshness is what the age of a copy is counted from, and what the answer said
// of its use (RFC 9111 §4.2).
type freshness struct {
	arrived      time.Time     // when the headers came, with the monotonic clock
	initialAge   time.Duration // corrected_initial_age, §4.2.3
	lifetime     time.Duration // explicit freshness lifetime, §4.2.1; 0 = none given
	onlyFresh    bool          // never to be shown stale, §4.2.4
	staleIfError time.Duration // how far past fresh it may be shown, RFC 5861 §4; negative = not said
}

// freshnessOf reads what an answer says of its own age and lifetime. It was
// asked for at one time, and its headers came at the other.
func freshnessOf(h http.Header, asked, arrived time.Time) freshness {
	d := parseDirectives(h["Cache-Control"])
	f := freshness{arrived: arrived, initialAge: arrived.Sub(asked), staleIfError: -1}
	first, _, _ := strings.Cut(h.Get("Age"), ",") // RFC 9111 §5.1
	age, _ := deltaSeconds(strings.TrimSpace(first))
	f.initialAge += age
	date, ok := parseDate(h["Date"])
	if ok {
		// apparent_age, RFC 9111 §4.2.3; wall clocks of two machines.
		f.initialAge = max(f.initialAge, arrived.Sub(date).Truncate(time.Second))
	} else {
		date = arrived.Round(0)
	}
	if age, ok := d.seconds("s-maxage"); ok {
		f.lifetime = age
	} else if age, ok := d.seconds("max-age"); ok {
		f.lifetime = age
	} else if expires, ok := parseDate(h["Expires"]); ok {
		f.lifetime = max(0, expires.Sub(date))
	}
	f.onlyFresh = d.has("must-revalidate", "proxy-revalidate", "s-maxage")
	if after, ok := d.seconds("stale-if-error"); ok {
		f.staleIfError = after
	}
	return f
}

// parseDate reads a date field. Whatever is not in one of the three forms of
// RFC 9110 §5.6.7, to the letter, is none (RFC 9111 §5.3).
func parseDate(lines []string) (time.Time, bool) {
	if len(lines) != 1 {
		return time.Time{}, false
	}
	t, err := http.ParseTime(lines[0])
	if err != nil {
		return time.Time{}, false
	}
	for _, form := range []string{http.TimeFormat, time.RFC850, time.ANSIC} {
		if t.Format(form) == lines[0] {
			return t, true
		}
	}
	return time.Time{}, false
}

// made is when the upstream made the answer, as far as ages tell.
func (f *freshness) made() time.Time { return f.arrived.Add(-f.initialAge) }

// age is current_age, RFC 9111 §4.2.3.
func (f *freshness) age(now time.Time) time.Duration { return f.initialAge + now.Sub(f.arrived) }

// allows reports whether the copy may be shown at an age, under the operator's
// max_age, the answer's own words and the caller's.
func (f *freshness) allows(age, maxAge time.Duration, caller directives) bool {
	past := age - f.lifetime
	switch {
	case age > maxAge:
		return false
	case f.onlyFresh && past >= 0:
		return false
	case f.staleIfError >= 0 && past > f.staleIfError:
		return false
	}
	return caller.accept(age, past)
}

// wishes reads what a caller says of the copies it takes. Pragma counts where
// there is no Cache-Control, RFC 9111 §5.4.
func wishes(req http.Header) directives {
	if d := parseDirectives(req["Cache-Control"]); d != nil {
		return d
	}
	if parseDirectives(req["Pragma"]).has("no-cache") {
		return directives{"no-cache": ""}
	}
	return nil
}

// accept reports whether the caller's directives let a copy answer that is so
// old, and so far past fresh (RFC 9111 §5.2.1, RFC 5861 §4). A caller who says
// how stale an answer may be is not held to its max-age.
func (d directives) accept(age, past time.Duration) bool {
	if d.has("no-cache") {
		return false
	}
	for _, name := range []string{"max-stale", "stale-if-error"} {
		if limit, said := d.seconds(name); said && d[name] != "" && past > limit {
			return false
		}
	}
	if limit, said := d.seconds("max-age"); said && age > limit && !d.has("max-stale", "stale-if-error") {
		return false
	}
	limit, said := d.seconds("min-fresh")
	return !said || -past >= limit
}
