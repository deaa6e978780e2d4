package stale

import (
	"maps"
	"net/http"
	"strings"
)

// renew makes the copy young again that a 304 to a caller's own conditional
// request confirms, with the fields that it brings (RFC 9111 §4.3.4). If these
// say that the answer must not be kept, it goes.
func (t Ticket) renew(a Answer) {
	header := a.Response.Header
	c := t.shelf.lookup(t.target, a.Request)
	if c == nil || !c.confirms(a.Request.Header, header) {
		return
	}
	next := *c
	next.header = c.header.Clone()
	kept := replayed(header, a.Arrived)
	for _, name := range []string{"Content-Encoding", "Content-Type", "Content-Range"} {
		kept.Del(name) // they describe a body that a 304 does not have (§3.2)
	}
	maps.Copy(next.header, kept)
	switch storable(a.Request.Header, next.header, c.status, c.names) {
	case none:
		aged := next.header.Clone()
		aged["Age"] = header["Age"]
		next.fresh = freshnessOf(aged, a.Asked, a.Arrived)
		t.shelf.put(t, &next)
	case SkipDirective, SkipVary:
		t.shelf.Drop(t.target)
	default: // it answers this caller alone
	}
}

// confirms reports whether a 304 to a request speaks of this copy: by its tag,
// or the only one asked for, or, where there is no tag, by its date (RFC 9111
// §4.3.4). A strong tag must be the same; a weak one may differ in strength.
func (c *Copy) confirms(req, h http.Header) bool {
	tag, modified := h.Get("ETag"), h.Get("Last-Modified")
	if tag == "" && modified == "" {
		tag = req.Get("If-None-Match")
	}
	own := c.header.Get("ETag")
	switch weak, isWeak := strings.CutPrefix(tag, "W/"); {
	case isWeak:
		return weak == strings.TrimPrefix(own, "W/")
	case tag != "":
		return tag == own
	}
	return modified != "" && modified == c.header.Get("Last-Modified")
}
