package stale

import (
	"bytes"
	"net/http"
	"strconv"
	"time"
)

// Copy is one answer that is kept. It is never changed once it is in the store.
type Copy struct {
	status int
	header http.Header // end-to-end fields that stay true in a replay
	body   []byte
	fresh  freshness

	target string
	names  []string // the request headers that its key was made with
	key    string   // the target's, and those headers' values
}

// overhead is about what a copy occupies beside its key, header and body:
// itself, its node in the cache, and its place in the index.
const overhead = 640

// size is what the copy occupies, in bytes.
func (c *Copy) size() int {
	n := overhead + len(c.target) + len(c.key) + len(c.body)
	for name, lines := range c.header {
		n += len(name) + 48
		for _, line := range lines {
			n += len(line) + 16
		}
	}
	return n
}

// Age is how old the copied answer is (RFC 9111 §4.2.3).
func (c *Copy) Age(now time.Time) time.Duration { return c.fresh.age(now) }

// TTL is how long the copied answer stays explicitly fresh; negative once it no
// longer is, or never was (RFC 9211 §2.2).
func (c *Copy) TTL(now time.Time) time.Duration { return c.fresh.lifetime - c.fresh.age(now) }

// Header returns the fields of the copied answer that stay true in a replay.
// They must not be changed.
func (c *Copy) Header() http.Header { return c.header }

// Write answers a request from the copy, with its headers already in w's, and
// returns the status it chose: net/http does for the copy what a server does
// for its resource with HEAD, conditional requests and ranges (RFC 9110 §13,
// §14).
func (c *Copy) Write(w http.ResponseWriter, r *http.Request) int {
	h := w.Header()
	if _, ok := c.header["Content-Type"]; !ok {
		h["Content-Type"] = nil // net/http would guess one
	}
	if c.status != http.StatusOK {
		if c.status != http.StatusNoContent {
			h["Content-Length"] = []string{strconv.Itoa(len(c.body))}
		}
		w.WriteHeader(c.status)
		if c.status != http.StatusNoContent && r.Method != http.MethodHead {
			_, _ = w.Write(c.body)
		}
		return c.status
	}
	modified, _ := http.ParseTime(h.Get("Last-Modified"))
	s := &statusWriter{ResponseWriter: w, status: http.StatusOK, whole: len(c.body)}
	http.ServeContent(s, r, "", modified, bytes.NewReader(c.body))
	return s.status
}

// statusWriter notes the status that ServeContent chose.
type statusWriter struct {
	http.ResponseWriter
	status int
	whole  int // length of the whole body
}

// WriteHeader notes and passes the status. ServeContent leaves the length of
// an encoded body to its caller.
func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	if status == http.StatusOK {
		w.Header()["Content-Length"] = []string{strconv.Itoa(w.whole)}
	}
	w.ResponseWriter.WriteHeader(status)
}

// replayed copies the header fields that stay true in a replay: without those
// of the connection, which the proxy has removed, and those that are computed
// anew (RFC 9111 §3.1).
func replayed(h http.Header) http.Header {
	kept := h.Clone()
	for _, name := range []string{"Age", "Content-Length", "Proxy-Authenticate", "Proxy-Authentication-Info", "Alt-Svc"} {
		kept.Del(name)
	}
	return kept
}

// confirms reports whether a 304 to a request speaks of this copy: by the same
// strong validator, in the answer or as the only one asked for, or, where there
// is no tag, by the same date (RFC 9111 §4.3.4).
func (c *Copy) confirms(req, h http.Header) bool {
	tag := h.Get("ETag")
	if tag == "" && h.Get("Last-Modified") == "" {
		tag = req.Get("If-None-Match")
	}
	if tag != "" {
		return tag[0] == '"' && tag == c.header.Get("ETag")
	}
	modified := h.Get("Last-Modified")
	return modified != "" && modified == c.header.Get("Last-Modified")
}

// renewed returns the copy as a 304 confirmed it: with that answer's header
// fields, but for those that describe a body it did not have (RFC 9111 §3.2).
func (c *Copy) renewed(h http.Header, fresh freshness) *Copy {
	next := *c
	next.header, next.fresh = c.header.Clone(), fresh
	for name, lines := range replayed(h) {
		switch name {
		case "Content-Encoding", "Content-Type", "Content-Range":
		default:
			next.header[name] = lines
		}
	}
	return &next
}
