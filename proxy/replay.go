package proxy

import (
	"errors"
	"io"
	"sync"
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

	mu      sync.Mutex    // guards everything below; never held while waiting
	current *replayReader // the latest attempt's
	reading bool          // src is being read, which may wait for the caller
	quiet   sync.Cond     // told when reading ends
	kept    []byte        // all that has been read, unless lost
	read    int64
	lost    bool  // more than limit was read
	err     error // how src ended
}

func newReplay(src io.Reader, limit int64) *replay {
	r := &replay{src: src, limit: limit}
	r.quiet.L = &r.mu
	return r
}

// again reports whether another attempt could send the whole body, as things
// stand.
func (r *replay) again() bool {
	if r == nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.lost
}

// rewind ends the latest attempt's reading if another attempt can send the
// whole body, and reports whether it can.
func (r *replay) rewind() bool {
	if r == nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lost {
		return false
	}
	if r.current != nil {
		r.current.over = true
	}
	return true
}

// reader returns the body from its beginning for one attempt. sent is called
// once, when the attempt has read it to the end; it must not block.
func (r *replay) reader(sent func()) *replayReader {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current = &replayReader{r: r, sent: sent}
	return r.current
}

// replayReader is one attempt's view of the body. Its fields are guarded by
// the replay's mutex.
type replayReader struct {
	r    *replay
	pos  int64
	sent func()
	over bool
}

// Read gives what earlier attempts have read, then reads on from the caller.
func (a *replayReader) Read(p []byte) (int, error) {
	r := a.r
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		if n, err, known := a.recall(p); known {
			return n, err
		}
		if !r.reading {
			break
		}
		r.quiet.Wait() // for an earlier attempt's read
	}
	n, err := r.ask(p)
	r.keep(p[:n], err, a.over)
	if a.over {
		return 0, errAttemptOver
	}
	if a.pos += int64(n); n > 0 {
		return n, nil // the end is told by the next read
	}
	return 0, a.ended(err)
}

// ask reads from the caller, without the mutex meanwhile.
func (r *replay) ask(p []byte) (int, error) {
	r.reading = true
	r.mu.Unlock()
	n, err := r.src.Read(p)
	r.mu.Lock()
	r.reading = false
	r.quiet.Broadcast()
	return n, err
}

// recall answers a read from what is known without the caller; known is false
// when the caller must be asked.
func (a *replayReader) recall(p []byte) (n int, err error, known bool) {
	switch r := a.r; {
	case a.over:
		return 0, errAttemptOver, true
	case a.pos < r.read:
		n = copy(p, r.kept[a.pos:])
		a.pos += int64(n)
		return n, nil, true
	case r.err != nil:
		return 0, a.ended(r.err), true
	}
	return 0, nil, false
}

// ended passes the body's end on, and tells once that the attempt has sent it.
func (a *replayReader) ended(err error) error {
	if errors.Is(err, io.EOF) && a.sent != nil {
		a.sent()
		a.sent = nil
	}
	return err
}

// keep notes what one read of the caller brought. What an attempt reads that
// is over by then is kept in any case: the next attempt needs it.
func (r *replay) keep(p []byte, err error, over bool) {
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
	a.r.mu.Lock()
	defer a.r.mu.Unlock()
	a.over = true
	return nil
}
