package proxy

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// skipReason says why an answer was not kept.
type skipReason int

const (
	skipDirective  skipReason = iota // no-store, private or no-cache
	skipVary                         // Vary: *
	skipSetCookie                    // Set-Cookie
	skipCredential                   // the request had Authorization or Cookie, and the answer is not public
	skipTooLarge                     // above max_object_bytes
	skipIncomplete                   // the body did not come to its end
)

var skipNames = [...]string{"directive", "vary", "set_cookie", "credentials", "too_large", "incomplete"}

// SkipReasons lists why an answer may not be kept in the stale store.
var SkipReasons = skipNames[:]

// directives are the parts of a Cache-Control field, RFC 9111 §5.2, by their
// names in lower case.
type directives map[string]string

func parseDirectives(lines []string) directives {
	d := directives{}
	for _, line := range lines {
		for part := range splitQuoted(line) {
			name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
			d[strings.ToLower(strings.TrimSpace(name))] = strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	return d
}

// splitQuoted splits a list at the commas that are not inside quotes.
func splitQuoted(line string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		quoted, from := false, 0
		for i := range len(line) {
			switch {
			case line[i] == '"':
				quoted = !quoted
			case line[i] == ',' && !quoted:
				if !yield(line[from:i]) {
					return
				}
				from = i + 1
			}
		}
		yield(line[from:])
	}
}

func (d directives) has(names ...string) bool {
	return slices.ContainsFunc(names, func(n string) bool { _, ok := d[n]; return ok })
}

// seconds reads a delta-seconds argument (RFC 9111 §1.2.2). One that cannot be
// read counts as zero, which is the careful reading (§4.2.1).
func (d directives) seconds(name string) (time.Duration, bool) {
	value, ok := d[name]
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(value, 10, 63)
	if err != nil || n > math.MaxInt32 {
		if err != nil && !strings.Contains(err.Error(), "range") {
			return 0, true
		}
		n = math.MaxInt32
	}
	return time.Duration(n) * time.Second, true
}

// storable reports whether a successful answer to a GET may be kept for every
// later caller of the same target, and why not. ok is false with a negative
// reason for answers that no copy is expected of.
func storable(r *http.Request, res *http.Response) (why skipReason, ok bool) {
	d := parseDirectives(res.Header["Cache-Control"])
	switch {
	case res.StatusCode < 200 || res.StatusCode > 299 || res.StatusCode == http.StatusPartialContent,
		parseDirectives(r.Header["Cache-Control"]).has("no-store"), eventStream(res):
		return -1, false
	case d.has("no-store", "private", "no-cache"):
		return skipDirective, false
	case slices.Contains(varyNames(res.Header), "*"):
		return skipVary, false
	case len(res.Header["Set-Cookie"]) > 0:
		return skipSetCookie, false
	case (r.Header["Authorization"] != nil || r.Header["Cookie"] != nil) && !d.has("public", "s-maxage"):
		return skipCredential, false
	}
	return 0, true
}

// varyNames returns the request headers that an answer depends on, canonical.
func varyNames(h http.Header) []string {
	var names []string
	for _, line := range h["Vary"] {
		for name := range strings.SplitSeq(line, ",") {
			if name = strings.TrimSpace(name); name != "" {
				names = append(names, http.CanonicalHeaderKey(name))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// freshnessOf reads what an answer says of its own age and lifetime.
func freshnessOf(h http.Header, asked, now time.Time) freshness {
	d := parseDirectives(h["Cache-Control"])
	f := freshness{arrived: now, initialAge: now.Sub(asked), staleIfError: -1}
	if n, err := strconv.ParseUint(h.Get("Age"), 10, 31); err == nil {
		f.initialAge += time.Duration(n) * time.Second
	}
	date, dateErr := http.ParseTime(h.Get("Date"))
	if dateErr == nil {
		// apparent_age, RFC 9111 §4.2.3; wall clocks of two machines.
		f.initialAge = max(f.initialAge, now.Sub(date).Truncate(time.Second))
	}
	if age, ok := d.seconds("s-maxage"); ok {
		f.lifetime = age
	} else if age, ok := d.seconds("max-age"); ok {
		f.lifetime = age
	} else if expires, err := http.ParseTime(h.Get("Expires")); err == nil && dateErr == nil {
		f.lifetime = max(0, expires.Sub(date))
	}
	f.onlyFresh = d.has("must-revalidate", "proxy-revalidate", "s-maxage")
	if after, ok := d.seconds("stale-if-error"); ok {
		f.staleIfError = after
	}
	return f
}
