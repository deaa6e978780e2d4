package proxy

import "net/http"

// receiveTrailer makes room for the trailer that may follow a request body,
// announced or not. net/http fills the map that it finds, in HTTP/1.1 with
// whatever came, so the one that is there before the body is read can be sent
// on.
func (c *call) receiveTrailer() {
	if c.r.Trailer == nil && c.r.ContentLength < 0 {
		c.r.Trailer = http.Header{}
	}
	cleanTrailer(c.r.Trailer)
	c.body.trailer = c.r.Trailer
}

// cleanTrailer removes what must not stand in a trailer because it says how a
// message is framed or where it goes (RFC 9110 §6.5.1).
func cleanTrailer(h http.Header) {
	if len(h) == 0 {
		return
	}
	removeHopByHop(h)
	h.Del("Content-Length")
	h.Del("Host")
}
