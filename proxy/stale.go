package proxy

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"sidecar/stale"
)

// stale returns the policy's fallback to a copy, or nil. Where several are
// listed, the first decides how copies are keyed.
func (p *Policy) stale() *Stale {
	for _, f := range p.Fallback {
		if f.Stale != nil {
			return f.Stale
		}
	}
	return nil
}

// usesCopies reports whether any call of these settings may be answered from a
// copy.
func (s *Settings) usesCopies() bool {
	return s.stale() != nil || slices.ContainsFunc(s.Routes, func(r Route) bool { return r.stale() != nil })
}

// copyOf is what all copies of a target are known by: the target as the
// upstream sees it.
func (c *call) copyOf(target string) string {
	if c.run.settings.PreserveHost {
		return c.r.Host + target
	}
	return target
}

// target is the call's own, with its query.
func (c *call) target() string {
	if c.r.URL.ForceQuery || c.r.URL.RawQuery != "" {
		return c.path + "?" + c.r.URL.RawQuery
	}
	return c.path
}

// ticket is taken before an attempt goes out whose answer may be kept.
func (c *call) ticket() stale.Ticket {
	if c.r.Method != http.MethodGet || c.policy.stale() == nil || !c.run.shelf.Wanted() {
		return stale.Ticket{}
	}
	return c.run.shelf.Ask(c.copyOf(c.target()))
}

// keepCopy arranges for a successful answer to be kept as it passes, or for
// the copies that it makes invalid to be dropped.
func (c *call) keepCopy(res *http.Response) {
	if unsafe(c.r.Method) {
		c.invalidate(res)
		return
	}
	if body, ok := res.Body.(*answerBody); ok && c.r.Method == http.MethodGet && c.policy.stale() != nil && !c.stream {
		body.tee = body.a.ticket.Record(stale.Answer{
			Request: c.r, Response: res, VaryBy: c.policy.stale().VaryBy,
			Asked: body.a.start, Arrived: body.a.start.Add(body.a.headers),
		})
	}
}

// invalidate drops the copies of what an unsafe method has changed: its target,
// and what the answer says was made or changed by it (RFC 9111 §4.4).
func (c *call) invalidate(res *http.Response) {
	if res.StatusCode >= 400 || !c.run.shelf.Wanted() {
		return
	}
	c.run.shelf.Drop(c.copyOf(c.target()))
	for _, name := range []string{"Location", "Content-Location"} {
		if target, ok := c.targetOf(res.Header.Get(name)); ok {
			c.run.shelf.Drop(c.copyOf(target))
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

// staleReplay is a copy that can answer a call.
type staleReplay struct {
	copied *stale.Copy
	now    time.Time
}

// staleCopy returns the copy that may answer this call now, or nil.
func (c *call) staleCopy(s *Stale) answerer {
	if c.r.Method != http.MethodGet && c.r.Method != http.MethodHead || !c.run.shelf.Wanted() {
		return nil
	}
	now := time.Now()
	if found := c.run.shelf.Find(c.copyOf(c.target()), c.r, now, s.MaxAge, s.VaryBy); found != nil {
		return &staleReplay{copied: found, now: now}
	}
	return nil
}

// answer replays the copy, marked as one.
func (s *staleReplay) answer(c *call, t trouble) {
	c.source, c.age = SourceStale, s.copied.Age(s.now)
	age := strconv.FormatInt(int64(c.age/time.Second), 10)
	ttl := strconv.FormatInt(int64(s.copied.TTL(s.now)/time.Second), 10)
	h := c.w.Header()
	maps.Copy(h, s.copied.Header())
	h["Age"] = []string{age}
	h["Proxy-Status"] = append(slices.Clip(h["Proxy-Status"]), t.proxyStatus())
	h["Cache-Status"] = append(slices.Clip(h["Cache-Status"]), "sidecar; hit; ttl="+ttl+"; detail="+string(t.why))
	h["Sidecar-Degraded"] = []string{"stale; reason=" + string(t.why) + "; age=" + age}
	c.status = s.copied.Write(c.w, c.r)
}
