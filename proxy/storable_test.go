package proxy

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

func fields(lines ...string) http.Header {
	h := http.Header{}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		h.Add(name, value)
	}
	return h
}

// Which answers are kept, and the reason that is counted for others.
func TestStorable(t *testing.T) {
	for _, c := range []struct {
		name     string
		request  http.Header
		response http.Header
		up       reply
		skip     string // "" = kept, "-" = not kept and not counted
	}{
		{name: "plain"},
		{name: "203", up: reply{status: 203}},
		{name: "public", response: fields("Cache-Control: public, max-age=1")},
		{name: "looks like a directive", response: fields(`Cache-Control: x="a, no-store, b"`)},
		{name: "no-store", response: fields("Cache-Control: No-Store"), skip: "directive"},
		{name: "private", response: fields("Cache-Control: private"), skip: "directive"},
		{name: "private with a field", response: fields(`Cache-Control: private="Set-Cookie"`), skip: "directive"},
		{name: "no-cache", response: fields("Cache-Control: max-age=1", "Cache-Control: no-cache"), skip: "directive"},
		{name: "Vary: *", response: fields("Vary: Accept, *"), skip: "vary"},
		{name: "Set-Cookie", response: fields("Set-Cookie: a=b", "Cache-Control: public"), skip: "set_cookie"},
		{name: "Authorization", request: fields("Authorization: x"), skip: "credentials"},
		{name: "Cookie", request: fields("Cookie: x"), response: fields("Cache-Control: max-age=1"), skip: "credentials"},
		{name: "Cookie, public", request: fields("Cookie: x"), response: fields("Cache-Control: public")},
		{name: "Authorization, s-maxage", request: fields("Authorization: x"), response: fields("Cache-Control: s-maxage=60")},
		{name: "too large, known", up: reply{body: text(strings.Repeat("x", 64<<10+1))}, skip: "too_large"},
		{name: "too large, unknown", up: reply{body: text(strings.Repeat("x", 64<<10+1)), length: -1}, skip: "too_large"},
		{name: "as large as may be", up: reply{body: text(strings.Repeat("x", 64<<10)), length: -1}},
		{name: "incomplete", up: reply{length: 9, body: []step{{err: errReset}}}, skip: "incomplete"},
		{name: "request says no-store", request: fields("Cache-Control: no-store"), skip: "-"},
		{name: "206", up: reply{status: 206}, skip: "-"},
		{name: "404", up: reply{status: 404}, skip: "-"},
		{name: "500", up: reply{status: 500}, skip: "-"},
		{name: "event stream", response: fields("Content-Type: text/event-stream"), skip: "-"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, keepsCopies, func(r *rig) {
				c.up.header = c.response
				r.up.will(c.up, reply{fails: errReset})
				r.call(caller{header: c.request})
				got := r.call(caller{header: c.request})
				if kept := got.header.Get("Sidecar-Degraded") != ""; kept != (c.skip == "") {
					r.Errorf("kept: %v", kept)
				}
				snap := r.store.Snapshot()
				for name, n := range snap.Skips {
					if want := map[bool]uint64{true: 1}[name == c.skip]; n != want {
						r.Errorf("%d skips for %s, want %d", n, name, want)
					}
				}
				if want := map[bool]uint64{true: 1}[c.skip == ""]; snap.Stores != want {
					r.Errorf("%d stores, want %d", snap.Stores, want)
				}
			})
		})
	}
}

// Nothing is kept, nor counted as skipped, where no fallback would show it.
func TestStorableForNobody(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		r.up.will(reply{header: fields("Cache-Control: no-store")}, reply{})
		r.get("/")
		r.get("/")
		if s := r.store.Snapshot(); s.Stores != 0 || s.Entries != 0 || s.Skips["directive"] != 0 {
			r.Errorf("store %+v, want nothing", s)
		}
	})
}

// How long a copy can stand in: the first age is the last at which it does.
func TestStaleLifetime(t *testing.T) {
	s := func(n int) time.Duration { return time.Duration(n) * time.Second }
	for _, c := range []struct {
		name   string
		header http.Header
		last   time.Duration // after the answer; negative = never
	}{
		{"max_age", nil, s(600)},
		{"max_age counts the upstream's age", fields("Age: 100"), s(500)},
		{"max_age counts from Date", fields("Date: Fri, 31 Dec 1999 23:58:20 GMT"), s(500)},
		{"the older of the two", fields("Age: 200", "Date: Fri, 31 Dec 1999 23:58:20 GMT"), s(400)},
		{"Age that is none", fields("Age: -5"), s(600)},
		{"Date in the future", fields("Date: Sat, 01 Jan 2000 01:00:00 GMT"), s(600)},
		{"no longer than max_age", fields("Cache-Control: max-age=9999"), s(600)},
		{"stale-if-error", fields("Cache-Control: max-age=10, stale-if-error=20"), s(30)},
		{"stale-if-error alone", fields("Cache-Control: stale-if-error=20"), s(20)},
		{"stale-if-error above max_age", fields("Cache-Control: stale-if-error=9999"), s(600)},
		{"stale-if-error that cannot be read", fields("Cache-Control: max-age=10, stale-if-error=x"), s(10)},
		{"stale-if-error beyond all", fields("Cache-Control: stale-if-error=99999999999999999999"), s(600)},
		{"must-revalidate", fields("Cache-Control: max-age=10, must-revalidate"), s(10) - 1},
		{"must-revalidate beats stale-if-error", fields("Cache-Control: max-age=10, must-revalidate, stale-if-error=20"), s(10) - 1},
		{"must-revalidate without a lifetime", fields("Cache-Control: must-revalidate"), -1},
		{"proxy-revalidate", fields("Cache-Control: max-age=10, proxy-revalidate"), s(10) - 1},
		{"s-maxage", fields("Cache-Control: max-age=10, s-maxage=20"), s(20) - 1},
		{"s-maxage=0", fields("Cache-Control: max-age=10, s-maxage=0"), -1},
		{"Expires", fields("Cache-Control: must-revalidate", "Date: Sat, 01 Jan 2000 00:00:00 GMT", "Expires: Sat, 01 Jan 2000 00:00:30 GMT"), s(30) - 1},
		{"max-age beats Expires", fields("Cache-Control: must-revalidate, max-age=10", "Date: Sat, 01 Jan 2000 00:00:00 GMT", "Expires: Sat, 01 Jan 2000 00:00:30 GMT"), s(10) - 1},
		{"Expires: 0", fields("Cache-Control: must-revalidate", "Date: Sat, 01 Jan 2000 00:00:00 GMT", "Expires: 0"), -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, keepsCopies, func(r *rig) {
				r.up.will(reply{header: c.header, body: text("AB")}, reply{fails: errReset})
				r.get("/")
				if c.last < 0 {
					if got := r.get("/"); got.status != 502 {
						r.Errorf("got %d at once, want none", got.status)
					}
					return
				}
				time.Sleep(c.last)
				if got := r.get("/"); got.status != 200 {
					r.Errorf("got %d after %v, want the copy", got.status, c.last)
				}
				time.Sleep(time.Nanosecond)
				if got := r.get("/"); got.status != 502 {
					r.Errorf("got %d after %v, want none", got.status, c.last+1)
				}
			})
		})
	}
}

// The time that the answer took to come is part of its age (RFC 9111 §4.2.3).
func TestAgeCountsTheDelay(t *testing.T) {
	bubble(t, both(keepsCopies, timeouts(0, 0)), func(r *rig) {
		up := reply{after: 3 * time.Second, header: fields("Age: 10"), body: []step{{after: 2 * time.Second, text: "AB"}}}
		r.up.will(up, reply{fails: errReset})
		r.get("/")
		time.Sleep(time.Second)
		r.get("/").wantStale(t, "AB", ReasonReset, 10+3+2+1)
	})
}
