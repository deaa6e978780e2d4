package proxy

import (
	"net/http"
	"testing"
)

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
			change := keepsCopies
			if c.change != nil {
				change = both(keepsCopies, c.change)
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
	bubble(t, keepsCopies, func(r *rig) {
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
			bubble(t, keepsCopies, func(r *rig) {
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
		{"403", reply{status: 403, body: text("x")}, caller{}},
		{"500", reply{status: 500, body: text("x")}, caller{}},
		{"no-store", reply{header: http.Header{"Cache-Control": {"no-store"}}, body: text("x")}, caller{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, keepsCopies, func(r *rig) {
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
