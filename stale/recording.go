package stale

import (
	"bytes"
	"net/http"
	"time"
)

// Ticket is taken before a GET goes out. What comes back is kept under it, and
// not at all if the target was changed in between. The zero Ticket keeps
// nothing.
type Ticket struct {
	shelf  *Shelf
	target string
	epoch  uint32
}

// Ask takes a ticket for a target.
func (s *Shelf) Ask(target string) Ticket {
	return Ticket{shelf: s, target: target, epoch: s.epoch(target).Load()}
}

// Answer is what came back for a ticket, as far as its headers tell.
type Answer struct {
	Request  *http.Request // as the caller sent it
	Response *http.Response
	VaryBy   []string  // keys copies beside Vary; canonical
	Asked    time.Time // when the attempt began
	Arrived  time.Time // when its headers came
}

// Record begins to keep a successful answer whose body is about to pass, or
// does what such an answer asks for: a 304 renews the copy that it confirms, a
// 404 or 410 drops the target's. It returns nil where there is nothing to keep.
func (t Ticket) Record(a Answer) *Recording {
	if t.shelf == nil {
		return nil
	}
	status, header := a.Response.StatusCode, a.Response.Header
	switch status {
	case http.StatusNotModified:
		t.renew(a)
		return nil
	case http.StatusNotFound, http.StatusGone:
		t.shelf.Drop(t.target)
		return nil
	}
	limit := t.shelf.store.maxObject.Load()
	why := storable(a.Request.Header, header, status, a.VaryBy)
	if why == none && a.Response.ContentLength > limit {
		why = SkipTooLarge
	}
	if why != none {
		t.shelf.store.skip(why)
		return nil
	}
	r := &Recording{ticket: t, limit: limit}
	r.copied = &Copy{
		status: status, header: replayed(header, a.Arrived), fresh: freshnessOf(header, a.Asked, a.Arrived),
		target: t.target, asked: acceptedBy(a.Request),
	}
	r.copied.names = sorted(append(varyNames(header), a.VaryBy...))
	r.copied.key = variantKey(t.shelf.store.secret, t.target, r.copied.names, a.Request)
	if a.Response.ContentLength > 0 {
		r.copied.body = make([]byte, 0, a.Response.ContentLength)
	}
	return r
}

// Recording is an answer that is kept as it passes. A nil Recording keeps
// nothing. It is not safe for concurrent use.
type Recording struct {
	ticket Ticket
	limit  int64
	copied *Copy // nil once it is committed or let go
}

// Write adds bytes of the body; past the limit everything is let go at once.
func (r *Recording) Write(p []byte) {
	switch {
	case r == nil || r.copied == nil:
	case int64(len(r.copied.body)+len(p)) > r.limit:
		r.forget(SkipTooLarge)
	default:
		r.copied.body = append(r.roomFor(len(p)), p...)
	}
}

// roomFor returns the body with room for more bytes. A body of unknown length
// doubles its room: append would grow a large one in small steps, and leave
// several times its size behind.
func (r *Recording) roomFor(n int) []byte {
	body := r.copied.body
	if len(body)+n <= cap(body) {
		return body
	}
	return append(make([]byte, 0, min(int64(max(2*cap(body), len(body)+n)), r.limit)), body...)
}

// Commit keeps the answer, now that it has come to a clean end.
func (r *Recording) Commit() {
	if r == nil || r.copied == nil {
		return
	}
	copied := r.copied
	r.copied = nil
	if len(copied.body) < cap(copied.body)*7/8 {
		copied.body = bytes.Clone(copied.body) // what it occupies is what is counted
	}
	r.ticket.shelf.put(r.ticket, copied)
}

// Abandon forgets an answer that did not come to its end.
func (r *Recording) Abandon() {
	if r != nil && r.copied != nil {
		r.forget(SkipIncomplete)
	}
}

func (r *Recording) forget(why Skip) {
	r.copied = nil
	r.ticket.shelf.store.skip(why)
}
