package stale

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
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
	asked  accepted // what the request said that it answered
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
// §14). What only the dependency itself can judge, If-Match and
// If-Unmodified-Since, a cache leaves out (RFC 9111 §4.3.2), and units of
// ranges that it does not know (RFC 9110 §14.2).
func (c *Copy) Write(w http.ResponseWriter, r *http.Request) int {
	h := w.Header()
	if _, ok := c.header["Content-Type"]; !ok {
		h["Content-Type"] = nil // net/http would guess one
	}
	if c.status == http.StatusOK && !unconditional(r) {
		return c.serve(w, r)
	}
	if c.status == http.StatusOK {
		h["Accept-Ranges"] = []string{"bytes"} // as in the answers to other requests
	}
	if c.status != http.StatusNoContent {
		h["Content-Length"] = []string{strconv.Itoa(len(c.body))}
	}
	w.WriteHeader(c.status)
	if c.status != http.StatusNoContent && r.Method != http.MethodHead {
		_, _ = w.Write(c.body)
	}
	return c.status
}

// unconditional reports whether a request asks for the whole, whatever its
// caller has already.
func unconditional(r *http.Request) bool {
	for name := range r.Header {
		switch name {
		case "If-None-Match", "If-Modified-Since", "If-Range", "Range", "If-Match", "If-Unmodified-Since":
			return false
		}
	}
	return true
}

// serve answers a request with conditions or ranges from the copy.
func (c *Copy) serve(w http.ResponseWriter, r *http.Request) int {
	h := w.Header()
	modified, _ := http.ParseTime(h.Get("Last-Modified"))
	s := &statusWriter{ResponseWriter: w, status: http.StatusOK, whole: len(c.body)}
	http.ServeContent(s, judged(r), "", modified, bytes.NewReader(c.body))
	return s.status
}

// judged returns a request with the conditions that a cache judges.
func judged(r *http.Request) *http.Request {
	unknown := r.Header["Range"] != nil && !strings.HasPrefix(r.Header.Get("Range"), "bytes=")
	if r.Header["If-Match"] == nil && r.Header["If-Unmodified-Since"] == nil && !unknown {
		return r
	}
	r = r.Clone(r.Context())
	r.Header.Del("If-Match")
	r.Header.Del("If-Unmodified-Since")
	if unknown {
		r.Header.Del("Range")
	}
	return r
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
// anew (RFC 9111 §3.1). Without a date, the answer has that of its arrival (RFC
// 9110 §6.6.1).
func replayed(h http.Header, arrived time.Time) http.Header {
	kept := h.Clone()
	for _, name := range []string{"Age", "Content-Length", "Proxy-Authenticate", "Proxy-Authentication-Info", "Alt-Svc"} {
		kept.Del(name)
	}
	if _, ok := parseDate(h["Date"]); !ok {
		kept.Set("Date", arrived.UTC().Format(http.TimeFormat))
	}
	return kept
}
