package proxy

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// hasStale reports whether a stale copy is among the policy's fallbacks.
func (p *Policy) hasStale() bool {
	for _, f := range p.Fallback {
		if f.Stale != nil {
			return true
		}
	}
	return false
}

// copyKey is the key of all copies of the call's target. The pool's number
// keeps apart what a dependency said before and after its upstream changed.
func (c *call) copyKey() string {
	key := c.d.name + "\x00" + strconv.FormatUint(c.run.pool.id, 36) + "\x00"
	if c.run.settings.PreserveHost {
		key += c.r.Host
	}
	key += "\x00" + c.path
	if c.r.URL.ForceQuery || c.r.URL.RawQuery != "" {
		key += "?" + c.r.URL.RawQuery
	}
	return key
}

// keepCopy arranges for a successful answer to be kept as it passes, or for
// the copies it makes invalid to be dropped.
func (c *call) keepCopy(res *http.Response) {
	if c.d.store == nil {
		return
	}
	if unsafe(c.r.Method) {
		if res.StatusCode < 400 {
			c.d.store.drop(c.copyKey())
		}
		return
	}
	body, ok := res.Body.(*answerBody)
	if c.r.Method != http.MethodGet || !c.policy.hasStale() || !ok {
		return
	}
	limit := c.d.store.maxObject.Load()
	why, ok := storable(c.r, res)
	switch {
	case !ok && why >= 0:
		c.d.store.skip(why)
	case !ok:
	case res.ContentLength > limit:
		c.d.store.skip(skipTooLarge)
	default:
		body.tee = &recording{
			c: c, limit: limit, names: varyNames(res.Header),
			status: res.StatusCode, header: replayHeader(res.Header),
			fresh: freshnessOf(res.Header, body.a.start, body.a.start.Add(body.a.headers)),
		}
		if res.ContentLength > 0 {
			body.tee.body = make([]byte, 0, res.ContentLength)
		}
	}
}

// unsafe reports whether a method may change its target (RFC 9110 §9.2.1).
func unsafe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return false
	}
	return true
}

// replayHeader copies the header fields that stay true in a replay: without
// those of the connection, which ReverseProxy has removed, and those that are
// computed anew.
func replayHeader(h http.Header) http.Header {
	kept := h.Clone()
	for _, name := range []string{"Age", "Content-Length", "Proxy-Authenticate", "Proxy-Authentication-Info", "Alt-Svc"} {
		kept.Del(name)
	}
	return kept
}

// recording is an answer that is kept as it passes. A nil recording keeps
// nothing.
type recording struct {
	c      *call
	limit  int64
	names  []string
	status int
	header http.Header
	fresh  freshness
	body   []byte
	over   bool // grew past limit, or has been committed
}

// write adds bytes; past the limit everything is let go at once.
func (r *recording) write(p []byte) {
	switch {
	case r == nil || r.over:
	case int64(len(r.body)+len(p)) > r.limit:
		r.over, r.body = true, nil
		r.c.d.store.skip(skipTooLarge)
	default:
		r.body = append(r.body, p...)
	}
}

// commit keeps the answer, now that it has come to a clean end.
func (r *recording) commit() {
	if r == nil || r.over {
		return
	}
	r.over = true
	r.c.d.store.put(r.c.copyKey(), r.c.r, r.names, &stored{
		status: r.status, header: r.header, body: r.body, fresh: r.fresh,
	})
}

// abandon forgets an answer that did not come to its end.
func (r *recording) abandon() {
	if r == nil || r.over {
		return
	}
	r.over, r.body = true, nil
	r.c.d.store.skip(skipIncomplete)
}

// staleReplay is a copy that can answer a call.
type staleReplay struct {
	copied *stored
	age    time.Duration
}

// staleCopy returns the copy that may answer this call now, or nil.
func (c *call) staleCopy(maxAge time.Duration) answerer {
	if c.d.store == nil || (c.r.Method != http.MethodGet && c.r.Method != http.MethodHead) {
		return nil
	}
	found := c.d.store.lookup(c.copyKey(), c.r)
	if found == nil {
		return nil
	}
	age := found.fresh.age(time.Now())
	if !found.fresh.replayable(age, maxAge) {
		return nil
	}
	return &staleReplay{copied: found, age: age}
}

// answer replays the copy, marked as one. net/http answers conditional and
// range requests and HEAD from it (RFC 9110 §13, §14).
func (s *staleReplay) answer(c *call, t trouble) {
	c.source, c.age = SourceStale, s.age
	seconds := int64(s.age / time.Second)
	ttl := int64((s.copied.fresh.lifetime - s.age) / time.Second)
	h := c.w.Header()
	if _, ok := s.copied.header["Content-Type"]; !ok {
		h["Content-Type"] = nil
	}
	maps.Copy(h, s.copied.header)
	h["Age"] = []string{strconv.FormatInt(seconds, 10)}
	h["Proxy-Status"] = append(slices.Clip(h["Proxy-Status"]), t.proxyStatus())
	h["Cache-Status"] = append(slices.Clip(h["Cache-Status"]), fmt.Sprintf("sidecar; hit; ttl=%d; detail=%s", ttl, t.why))
	h["Sidecar-Degraded"] = []string{fmt.Sprintf("stale; reason=%s; age=%d", t.why, seconds)}
	if s.copied.status != http.StatusOK {
		if bodyAllowed(s.copied.status) {
			h["Content-Length"] = []string{strconv.Itoa(len(s.copied.body))}
		}
		c.write(s.copied.status, s.copied.body)
		return
	}
	modified, _ := http.ParseTime(h.Get("Last-Modified"))
	w := &statusWriter{ResponseWriter: c.w, status: http.StatusOK, whole: len(s.copied.body)}
	http.ServeContent(w, c.r, "", modified, bytes.NewReader(s.copied.body))
	c.status = w.status
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
