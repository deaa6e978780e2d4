package proxy

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// callerBody is the caller's request body. It knows whether the sidecar is
// waiting for the caller, which decides who is to blame for a timeout. A nil
// callerBody stands for a request without one. It is safe for concurrent use,
// with one reader at a time.
type callerBody struct {
	src   io.ReadCloser
	rc    *http.ResponseController
	limit int64 // bytes still allowed; negative = no limit

	mu      sync.Mutex // guards everything below
	reading bool
	quiet   sync.Cond // told when reading ends
	over    bool      // nothing more is to be read
	cut     bool      // a read was ended by force: what the connection brings next is not known
	err     error     // how it ended: io.EOF, errTooLarge, or what the connection said
}

func newCallerBody(src io.ReadCloser, limit int64, rc *http.ResponseController) *callerBody {
	if limit <= 0 {
		limit = -1
	}
	b := &callerBody{src: src, rc: rc, limit: limit}
	b.quiet.L = &b.mu
	return b
}

// Read reads from the caller. Its errors, io.EOF aside, are the caller's
// fault.
func (b *callerBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	if b.err != nil {
		defer b.mu.Unlock()
		return 0, b.err
	}
	if b.over {
		defer b.mu.Unlock()
		return 0, errCallEnded
	}
	b.reading = true
	b.mu.Unlock()

	n, err := b.src.Read(p)
	if b.limit >= 0 {
		if b.limit -= int64(n); b.limit < 0 {
			n, err = 0, errTooLarge
		}
	}

	b.mu.Lock()
	defer b.mu.Unlock()
	b.reading = false
	b.quiet.Broadcast()
	b.err = err
	return n, err
}

// Close leaves the body to net/http, which owns the connection.
func (b *callerBody) Close() error { return nil }

// pending reports whether the sidecar is waiting for the caller at this
// moment.
func (b *callerBody) pending() bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reading
}

// complete reports whether the body has been read to its end, so that the next
// request can follow on the connection.
func (b *callerBody) complete() bool {
	if b == nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return errors.Is(b.err, io.EOF) && !b.cut
}

// fault returns what the caller did wrong with its body, or nil.
func (b *callerBody) fault() error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if errors.Is(b.err, io.EOF) {
		return nil
	}
	return b.err
}

// interrupt ends the reading: a read that waits for the caller, and every later
// one. It returns when none is under way. The handler must not return before:
// net/http would lift the deadline and wait for the caller.
func (b *callerBody) interrupt() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
	if !b.reading {
		return
	}
	b.cut = true
	if b.rc.SetReadDeadline(time.Unix(1, 0)) != nil {
		return
	}
	for b.reading {
		b.quiet.Wait()
	}
}

// drain reads the rest of a body that nobody wants for a moment, so that the
// connection can be used again, and reports whether it came to its end.
// net/http would do the same before an answer, and wait for ever.
func (b *callerBody) drain() bool {
	stop := time.AfterFunc(drainTime, b.interrupt)
	defer stop.Stop()
	_, _ = io.CopyN(io.Discard, b, drainBytes)
	return b.complete()
}
