package http1

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
)

var errInterrupted = errors.New("http1: the exchange was interrupted before it began")

// InterimHandler hears of interim responses.
type InterimHandler interface {
	// Interim is told the status and the header fields, which are the
	// handler's to keep.
	Interim(status int, header http.Header) error
}

// Exchange is one request and its answer. The zero value is ready; it must not
// be copied or used twice. Interrupt is safe for concurrent use, the other
// methods belong to the goroutine of the exchange.
type Exchange struct {
	t       *Transport
	reused  bool
	written int64
	ended   bool
	keep    bool // the connection can be used again after the answer

	mu   sync.Mutex // guards everything below
	conn *conn      // while the exchange holds it
	cut  bool
}

// Interrupt ends the exchange, if it is under way: what waits for its
// connection returns with an error at once.
func (e *Exchange) Interrupt() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cut = true
	if e.conn != nil {
		_ = e.conn.Close()
	}
}

// Reused reports whether the connection had been used before.
func (e *Exchange) Reused() bool { return e.reused }

// Written returns how many bytes of the request the operating system had taken
// when RoundTrip returned. After an error it takes no more.
func (e *Exchange) Written() int64 { return e.written }

// Ended reports whether reading the connection came to its end, or failed,
// before the answer's headers were complete.
func (e *Exchange) Ended() bool { return e.ended }

// over returns why there is nothing to begin any more, or nil.
func (e *Exchange) over(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cut {
		return errInterrupted
	}
	return nil
}

// hold begins the exchange on a connection. From here on Interrupt closes it.
func (e *Exchange) hold(c *conn) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.conn = c
}

// finish ends the exchange. Its connection is used again if the answer has been
// read to its end and nothing else speaks against it.
func (e *Exchange) finish(whole bool) {
	e.mu.Lock()
	c, cut := e.conn, e.cut
	e.conn = nil
	e.mu.Unlock()
	switch {
	case c == nil:
	case !whole, cut, !e.keep, c.ended, c.in.Buffered() > 0, !c.sent():
		_ = c.Close()
	default:
		e.t.put(c)
	}
}

// body is an answer's body. Its end is that of the exchange. Close is safe
// while another goroutine reads.
type body struct {
	io.ReadCloser
	e      *Exchange
	err    error // how it ended
	closed atomic.Bool
}

// Read reads from the connection.
func (b *body) Read(p []byte) (int, error) {
	switch {
	case b.closed.Load():
		return 0, http.ErrBodyReadAfterClose
	case b.err != nil:
		return 0, b.err
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.err = err
		b.e.finish(err == io.EOF)
	}
	return n, err
}

// Close ends the exchange. A body that was not read to its end takes its
// connection with it: reading the rest might take for ever.
func (b *body) Close() error {
	b.closed.Store(true)
	b.e.finish(false)
	return nil
}
