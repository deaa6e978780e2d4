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

// stale makes the store the only fallback.
func stale(s *Settings) { s.Fallback = []Fallback{{Stale: &Stale{MaxAge: 10 * time.Minute}}} }

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
			bubble(t, stale, func(r *rig) {
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
	bubble(t, both(stale, trips(1)), func(r *rig) {
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
	bubble(t, both(stale, func(s *Settings) { s.Bulkhead.MaxConcurrent, s.Bulkhead.MaxWaiting = 1, 1 }, timeouts(0, 0)), func(r *rig) {
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
	bubble(t, both(stale, trips(1)), func(r *rig) {
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
			"Age": {"37"}, "Cache-Status": {"cdn; hit", "sidecar; hit; ttl=-7; detail=open"},
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
		{"precondition", caller{header: header("If-Match", `"2"`)}, 412, "", ""},
		{"range", caller{header: header("Range", "bytes=2-4")}, 206, "234", "3"},
		{"range beyond the end", caller{header: header("Range", "bytes=10-")}, 416, "invalid range: failed to overlap\n", ""},
		{"range of another tag", caller{header: header("Range", "bytes=2-4", "If-Range", `"2"`)}, 200, "0123456789", "10"},
		{"POST", caller{method: "POST"}, 502, "", ""},
	} {
		for _, encoding := range []string{"", "gzip"} {
			t.Run(c.name+encoding, func(t *testing.T) {
				bubble(t, stale, func(r *rig) {
					up := good("0123456789")
					up.header.Set("Last-Modified", "Fri, 31 Dec 1999 00:00:00 GMT")
					if encoding != "" {
						up.header.Set("Content-Encoding", encoding)
					}
					r.up.will(up, reply{fails: errReset})
					r.get("/x")
					call := c.caller
					call.target = "/x"
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
	bubble(t, stale, func(r *rig) {
		r.up.will(reply{status: 204}, reply{fails: errReset})
		r.get("/x")
		got := r.get("/x")
		got.want(t, 204, "", 0)
		if _, ok := got.header["Content-Length"]; ok || got.header.Get("Sidecar-Degraded") == "" {
			r.Errorf("headers %v", got.header)
		}
	})
}

// The target with its query, and the Host where that goes upstream, make the
// key of a copy.
func TestStaleKey(t *testing.T) {
	host := func(s *Settings) { s.PreserveHost = true }
	for _, c := range []struct {
		name        string
		change      func(*Settings)
		kept, asked caller
		same        bool
	}{
		{"same", nil, caller{target: "/x?id=1"}, caller{target: "/x?id=1"}, true},
		{"other query", nil, caller{target: "/x?id=1"}, caller{target: "/x?id=2"}, false},
		{"empty query", nil, caller{target: "/x"}, caller{target: "/x?"}, false},
		{"escaped", nil, caller{target: "/a%2Fb"}, caller{target: "/a/b"}, false},
		{"absolute form", nil, caller{target: "http://h/x"}, caller{target: "/x"}, true},
		{"other host", nil, caller{host: "a"}, caller{host: "b"}, true},
		{"other host that is preserved", host, caller{host: "a"}, caller{host: "b"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			change := stale
			if c.change != nil {
				change = both(stale, c.change)
			}
			bubble(t, change, func(r *rig) {
				r.up.will(good("AB"), reply{fails: errReset})
				r.call(c.kept)
				if got := r.call(c.asked); (got.status == 200) != c.same {
					r.Errorf("got %d %q, a copy is wanted: %v", got.status, got.body, c.same)
				}
			})
		})
	}
}

// E7: each variant is kept beside the others, and none stands in for another.
func TestStaleVariants(t *testing.T) {
	ask := func(language string) caller {
		if language == "" {
			return caller{target: "/x"}
		}
		return caller{target: "/x", header: http.Header{"Accept-Language": {language}}}
	}
	vary := func(body string) reply {
		up := good(body)
		up.header.Set("Vary", "accept-language, Accept-Encoding")
		return up
	}
	bubble(t, stale, func(r *rig) {
		for _, language := range []string{"de", "fr", ""} {
			r.up.will(vary("in " + language))
			r.call(ask(language))
		}
		r.up.will(reply{fails: errReset})
		for _, language := range []string{"de", "fr", ""} {
			r.call(ask(language)).wantStale(t, "in "+language, ReasonReset, 0)
		}
		for _, c := range []caller{ask("en"), {target: "/x", header: http.Header{"Accept-Language": {"de"}, "Accept-Encoding": {"gzip"}}}} {
			if got := r.call(c); got.status != 502 {
				r.Errorf("another variant got %d %q", got.status, got.body)
			}
		}
	})
}

// A successful unsafe method on the target drops all its copies; a failed one
// drops none, and neither does another target's.
func TestStaleInvalidation(t *testing.T) {
	for _, c := range []struct {
		method, target string
		up             reply
		kept           bool
	}{
		{"POST", "/x", reply{}, false},
		{"PUT", "/x", reply{status: 204}, false},
		{"DELETE", "/x", reply{status: 303}, false},
		{"PURGE", "/x", reply{}, false},
		{"DELETE", "/x", reply{status: 404}, true},
		{"POST", "/x", reply{status: 500}, true},
		{"POST", "/x", reply{fails: errReset}, true},
		{"POST", "/x?y", reply{}, true},
		{"HEAD", "/x", reply{}, true},
		{"OPTIONS", "/x", reply{}, true},
	} {
		t.Run(c.method+c.target, func(t *testing.T) {
			bubble(t, stale, func(r *rig) {
				r.up.will(good("AB"), c.up, reply{fails: errReset})
				r.get("/x")
				r.call(caller{method: c.method, target: c.target})
				if got := r.get("/x"); (got.status == 200) != c.kept {
					r.Errorf("got %d, a copy is wanted: %v", got.status, c.kept)
				}
			})
		})
	}
}

// Only a complete answer replaces the copy there is.
func TestStaleNeedsTheWholeAnswer(t *testing.T) {
	for _, c := range []struct {
		name   string
		up     reply
		caller caller
	}{
		{"broken off", reply{length: 9, body: []step{{text: "x"}, {err: errReset}}}, caller{}},
		{"chunks broken off", reply{length: -1, body: []step{{text: "x"}, {err: errReset}}}, caller{}},
		{"timed out", reply{length: 9, body: []step{{text: "x"}, {after: forever}}}, caller{}},
		{"caller left", reply{length: 9, body: []step{{text: "x"}, {after: forever}}}, caller{leaves: ms(100)}},
		{"206", reply{status: 206, body: text("x")}, caller{header: http.Header{"Range": {"bytes=0-0"}}}},
		{"304", reply{status: 304}, caller{header: http.Header{"If-None-Match": {`"1"`}}}},
		{"404", reply{status: 404, body: text("x")}, caller{}},
		{"500", reply{status: 500, body: text("x")}, caller{}},
		{"no-store", reply{header: http.Header{"Cache-Control": {"no-store"}}, body: text("x")}, caller{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, stale, func(r *rig) {
				r.up.will(good("AB"), c.up, reply{fails: errReset})
				r.get("/x")
				call := c.caller
				call.target = "/x"
				r.call(call)
				if got := r.get("/x"); got.body != "AB" {
					r.Errorf("got %d %q, want the first answer", got.status, got.body)
				}
			})
		})
	}
}

// A copy that is gone between the decision and the answer is no reason to hide
// what the upstream said.
func TestStaleDecidesOnce(t *testing.T) {
	bubble(t, stale, func(r *rig) {
		r.up.will(good("AB"), reply{status: 500, body: text("bad"), closed: func() { r.store.entries.InvalidateAll() }})
		r.get("/x")
		r.get("/x").wantStale(t, "AB", ReasonStatus, 0)
	})
}

// Bodies of every size come through whole, once.
func TestStaleLargeBody(t *testing.T) {
	bubble(t, stale, func(r *rig) {
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
