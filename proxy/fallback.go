package proxy

import (
	"maps"
	"net/http"
	"strconv"
)

// answerer is a fallback that can answer this call.
type answerer interface {
	answer(c *call, t trouble)
}

// fallback returns the first fallback that can answer, or nil. A request that
// the sidecar cannot accept is the caller's to mend: nothing stands in for it.
func (c *call) fallback(t trouble) answerer {
	if len(c.policy.Fallback) == 0 || isGRPC(c.r.Header) || t.why == ReasonRequest || t.why == ReasonCanceled || !mayDegrade(c.r.Method, c.route) {
		return nil
	}
	for _, f := range c.policy.Fallback {
		switch {
		case f.Static != nil:
			return f.Static
		case f.Stale != nil:
			if found := c.staleCopy(f.Stale); found != nil {
				return found
			}
		}
	}
	return nil
}

// answer sends the operator's fixed body.
func (s *Static) answer(c *call, t trouble) {
	c.source = SourceStatic
	h := c.w.Header()
	h["Content-Type"] = nil // net/http would guess one
	if s.Status == http.StatusServiceUnavailable {
		h["Retry-After"] = []string{c.retryAfter(t)}
	}
	maps.Copy(h, s.Header)
	h["Proxy-Status"] = []string{t.proxyStatus()}
	h["Sidecar-Degraded"] = []string{"static; reason=" + string(t.why)}
	if bodyAllowed(s.Status) {
		h["Content-Length"] = []string{strconv.Itoa(len(s.Body))}
	}
	c.write(s.Status, s.Body)
}
