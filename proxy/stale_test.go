package proxy

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sidecar/resilience/breaker"
)

// keepsCopies makes the store the only fallback.
func keepsCopies(s *Settings) { s.Fallback = []Fallback{{Stale: &Stale{MaxAge: 10 * time.Minute}}} }

// good is a plain answer worth keeping.
func good(body string) reply {
	return reply{header: http.Header{"Content-Type": {"text/x"}, "Etag": {`"1"`}}, body: text(body)}
}

// wantStale checks that an answer is a copy, for a reason and of an age.
func (a *answer) wantStale(t *testing.T, body string, why Reason, age int) {
	t.Helper()
	if a.status != 200 || a.body != body || a.aborted {
		t.Errorf("got %d %q, want the copy %q", a.status, a.body, body)
	}
	if got, want := a.header.Get("Sidecar-Degraded"), fmt.Sprintf("stale; reason=%s; age=%d", why, age); got != want {
		t.Errorf("Sidecar-Degraded: %s, want %s", got, want)
	}
}

// E6: whatever the failure, the copy stands in, again and again.
func TestStaleForEveryFailure(t *testing.T) {
	for _, c := range []struct {
		why  Reason
		up   reply
		took time.Duration
	}{
		{ReasonStatus, reply{status: 500, body: text("bad")}, 0},
		{ReasonConnect, reply{noConn: true, fails: errRefused}, 0},
		{ReasonReset, reply{fails: errReset}, 0},
		{ReasonProtocol, reply{fails: errSwitch}, 0},
		{ReasonTimeout, reply{after: forever}, ms(500)},
	} {
		t.Run(string(c.why), func(t *testing.T) {
			bubble(t, keepsCopies, func(r *rig) {
				r.up.will(good("AB"))
				r.get("/x")
				r.up.will(c.up)
				for n := range 3 {
					got := r.get("/x")
					got.wantStale(t, "AB", c.why, int(c.took*time.Duration(n+1)/time.Second))
					if got.took != c.took {
						r.Errorf("took %v, want %v", got.took, c.took)
					}
				}
				if h := r.lastCall(); h.Outcome != OutcomeFallback || h.Reason != c.why || h.Source != SourceStale || h.Status != 200 {
					r.Errorf("heard %+v", h)
				}
				r.up.will(good("CD"), reply{fails: errReset})
				r.get("/x").want(t, 200, "CD", 0)
				r.get("/x").wantStale(t, "CD", ReasonReset, 0)
			})
		})
	}
}

// The sidecar's own refusals are answered from the copy too.
func TestStaleForRefusals(t *testing.T) {
	bubble(t, both(keepsCopies, trips(1)), func(r *rig) {
		r.up.will(good("AB"), reply{status: 500})
		r.get("/x")
		r.get("/other")
		r.get("/x").wantStale(t, "AB", ReasonOpen, 0)
		time.Sleep(time.Second)
		r.up.will(reply{after: ms(100)})
		r.start(caller{target: "/probe"})
		synctest.Wait()
		r.get("/x").wantStale(t, "AB", ReasonProbing, 1)
	})
	bubble(t, both(keepsCopies, func(s *Settings) { s.Bulkhead.MaxConcurrent, s.Bulkhead.MaxWaiting = 1, 1 }, timeouts(0, 0)), func(r *rig) {
		r.up.will(good("AB"), reply{after: time.Second})
		r.get("/x")
		r.start(caller{target: "/long"})
		synctest.Wait()
		waits := r.start(caller{target: "/x"})
		synctest.Wait()
		r.get("/x").wantStale(t, "AB", ReasonQueueFull, 0)
		waits.wait().wantStale(t, "AB", ReasonQueueTimeout, 0)
		if waits.took != ms(500) {
			r.Errorf("waited %v, want 500ms", waits.took)
		}
	})
}

// The headers of a copy are the answer's own, and those that mark it.
func TestStaleHeaders(t *testing.T) {
	bubble(t, both(keepsCopies, trips(1)), func(r *rig) {
		up := good("AB")
		up.header.Set("Age", "5")
		up.header.Set("Cache-Control", "max-age=30")
		up.header.Set("Connection", "X-Hop")
		up.header.Set("X-Hop", "1")
		up.header.Set("Keep-Alive", "timeout=5")
		up.header.Set("Content-Length", "2")
		up.header.Set("Cache-Status", "cdn; hit")
		r.up.will(up, reply{status: 500})
		r.get("/x")
		r.get("/trip")
		time.Sleep(ms(32700))
		r.d.Force(breaker.ForcedOpen)
		r.get("/x").wantHeader(t, http.Header{
			"Content-Type": {"text/x"}, "Etag": {`"1"`}, "Cache-Control": {"max-age=30"},
			"Content-Length": {"2"}, "Accept-Ranges": {"bytes"},
			"Age": {"37"}, "Date": {"Sat, 01 Jan 2000 00:00:00 GMT"}, "Cache-Status": {"cdn; hit", "sidecar; hit; ttl=-7; detail=open"},
			"Proxy-Status":     {`sidecar; error=destination_unavailable; details="open"`},
			"Sidecar-Degraded": {"stale; reason=open; age=37"},
		})
		if h := r.lastCall(); h.Age != ms(37700) {
			r.Errorf("heard age %v, want 37.7s", h.Age)
		}
	})
}

// E4, E8: HEAD, conditional requests and ranges are answered from a copy as
// from the resource.
func TestStaleForKindsOfRequests(t *testing.T) {
	header := func(pairs ...string) http.Header {
		h := http.Header{}
		for i := 0; i < len(pairs); i += 2 {
			h.Set(pairs[i], pairs[i+1])
		}
		return h
	}
	for _, c := range []struct {
		name   string
		caller caller
		status int
		body   string
		length string // Content-Length
	}{
		{"HEAD", caller{method: "HEAD"}, 200, "", "10"},
		{"GET", caller{}, 200, "0123456789", "10"},
		{"same tag", caller{header: header("If-None-Match", `"1"`)}, 304, "", ""},
		{"other tag", caller{header: header("If-None-Match", `"2"`)}, 200, "0123456789", "10"},
		{"not modified since", caller{header: header("If-Modified-Since", "Sat, 01 Jan 2000 00:00:00 GMT")}, 304, "", ""},
		{"If-Match", caller{header: header("If-Match", `"2"`)}, 200, "0123456789", "10"},
		{"If-Unmodified-Since", caller{header: header("If-Unmodified-Since", "Fri, 01 Jan 1999 00:00:00 GMT")}, 200, "0123456789", "10"},
		{"unknown unit of range", caller{header: header("Range", "lines=1-2")}, 200, "0123456789", "10"},
		{"range", caller{header: header("Range", "bytes=2-4")}, 206, "234", "3"},
		{"range beyond the end", caller{header: header("Range", "bytes=10-")}, 416, "invalid range: failed to overlap\n", ""},
		{"range of another tag", caller{header: header("Range", "bytes=2-4", "If-Range", `"2"`)}, 200, "0123456789", "10"},
		{"POST", caller{method: "POST"}, 502, "", ""},
	} {
		for _, encoding := range []string{"", "gzip"} {
			t.Run(c.name+encoding, func(t *testing.T) {
				bubble(t, keepsCopies, func(r *rig) {
					up := good("0123456789")
					up.header.Set("Last-Modified", "Fri, 31 Dec 1999 00:00:00 GMT")
					call := c.caller
					call.target = "/x"
					if encoding != "" {
						up.header.Set("Content-Encoding", encoding)
						call.header = call.header.Clone()
						if call.header == nil {
							call.header = http.Header{}
						}
						call.header.Set("Accept-Encoding", encoding)
					}
					r.up.will(up, reply{fails: errReset})
					r.get("/x")
					got := r.call(call)
					if got.status != c.status || (c.status < 500 && (got.body != c.body || got.header.Get("Content-Length") != c.length)) {
						r.Errorf("got %d %q, length %q; want %d %q, %q", got.status, got.body, got.header.Get("Content-Length"), c.status, c.body, c.length)
					}
					if h := r.lastCall(); h.Status != c.status {
						r.Errorf("heard %d, want %d", h.Status, c.status)
					}
				})
			})
		}
	}
}

// A copy of an answer without a body has none.
func TestStale204(t *testing.T) {
	bubble(t, keepsCopies, func(r *rig) {
		r.up.will(reply{status: 204}, reply{fails: errReset})
		r.get("/x")
		got := r.get("/x")
		got.want(t, 204, "", 0)
		if _, ok := got.header["Content-Length"]; ok || got.header.Get("Sidecar-Degraded") == "" {
			r.Errorf("headers %v", got.header)
		}
	})
}

// A copy that is gone between the decision and the answer is no reason to hide
// what the upstream said.
func TestStaleDecidesOnce(t *testing.T) {
	bubble(t, keepsCopies, func(r *rig) {
		r.up.will(good("AB"), reply{status: 500, body: text("bad"), closed: func() { r.d.current.Load().shelf.Drop("/x") }})
		r.get("/x")
		r.get("/x").wantStale(t, "AB", ReasonStatus, 0)
	})
}

// Bodies of every size come through whole, once.
func TestStaleLargeBody(t *testing.T) {
	bubble(t, keepsCopies, func(r *rig) {
		body := strings.Repeat("0123456789abcdef", 4<<10) // as large as an object may be
		up := good(body)
		up.length = -1
		r.up.will(up, reply{fails: errReset})
		r.get("/x")
		got := r.get("/x")
		got.wantStale(t, body, ReasonReset, 0)
		if len(got.header["Content-Length"]) != 1 {
			r.Errorf("Content-Length %q", got.header["Content-Length"])
		}
	})
}
