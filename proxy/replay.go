package proxy

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
)

var errAttemptOver = errors.New("the attempt that read this body is over")

// replay lets several attempts, one after the other, send one request body
// while it streams in. Up to limit bytes are kept; once more than that has been
// read, the body streams through and cannot be sent again. It is safe for
// concurrent use: an attempt that is over may still be inside a read while the
// next one begins. A nil replay stands for a request without a body.
type replay struct {
	src   io.Reader
	limit int64
	turn  sync.Mutex // held while reading src, which may wait for the caller

	mu   sync.Mutex // guards everything below; never held while waiting
	kept []byte     // all that has been read, unless lost
	read int64
	lost bool  // more than limit was read
	err  error // how src ended
}

func newReplay(src io.Reader, limit int64) *replay { return &replay{src: src, limit: limit} }

// again reports whether another attempt could send the whole body.
func (r *replay) again() bool {
	if r == nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.lost
}

// untouched reports whether nothing has been read from the caller yet.
func (r *replay) untouched() bool {
	if r == nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.read == 0 && r.err == nil
}

// reader returns the body from its beginning for one attempt. sent is called
// once, when the attempt has read it to the end.
func (r *replay) reader(sent func()) *replayReader { return &replayReader{r: r, sent: sent} }

// replayReader is one attempt's view of the body.
type replayReader struct {
	r    *replay
	pos  int64
	sent func()
	over atomic.Bool
}

// Read gives what earlier attempts have read, then reads on from the caller.
func (a *replayReader) Read(p []byte) (int, error) {
	if n, err, known := a.recall(p); known {
		return n, err
	}
	a.r.turn.Lock()
	defer a.r.turn.Unlock()
	// An earlier attempt's read may have ended while this one waited.
	if n, err, known := a.recall(p); known {
		return n, err
	}
	n, err := a.r.src.Read(p)
	over := a.over.Load()
	a.r.keep(p[:n], err, over)
	if over {
		return 0, errAttemptOver
	}
	if a.pos += int64(n); n > 0 {
		return n, nil // the end is told by the next read
	}
	return 0, a.ended(err)
}

// recall answers a read from what is known without the caller; known is false
// when the caller must be asked.
func (a *replayReader) recall(p []byte) (n int, err error, known bool) { //nolint:revive // known belongs last
	if a.over.Load() {
		return 0, errAttemptOver, true
	}
	a.r.mu.Lock()
	defer a.r.mu.Unlock()
	if a.pos < a.r.read {
		n = copy(p, a.r.kept[a.pos:])
		a.pos += int64(n)
		return n, nil, true
	}
	return 0, a.ended(a.r.err), a.r.err != nil
}

// ended passes the body's end on, and tells once that the attempt has sent it.
func (a *replayReader) ended(err error) error {
	if err == io.EOF && a.sent != nil {
		a.sent()
		a.sent = nil
	}
	return err
}

// keep notes what one read of the caller brought. What an attempt reads that
// is over by then is kept in any case: the next attempt needs it.
func (r *replay) keep(p []byte, err error, over bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read += int64(len(p))
	r.err = err
	switch {
	case r.lost:
	case over, int64(len(r.kept)+len(p)) <= r.limit:
		r.kept = append(r.kept, p...)
	default:
		r.lost, r.kept = true, nil
	}
}

// Close ends this attempt's view. A read under way ends when the caller sends
// more, and what it brings is kept.
func (a *replayReader) Close() error {
	a.over.Store(true)
	return nil
}
