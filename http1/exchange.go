package http1

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
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

// Written returns how many bytes of the request the operating system took.
func (e *Exchange) Written() int64 { return e.written }

// Ended reports whether reading the connection came to its end, or failed,
// before the answer's headers were complete.
func (e *Exchange) Ended() bool { return e.ended }

// begin begins the exchange on a connection, unless it was interrupted before.
func (e *Exchange) begin(ctx context.Context, c *conn) error {
	e.mu.Lock()
	e.conn = c
	cut := e.cut
	e.mu.Unlock()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if cut {
		return errInterrupted
	}
	return nil
}

// finish ends an exchange whose answer has been read to its end.
func (e *Exchange) finish() {
	e.mu.Lock()
	c, cut := e.conn, e.cut
	e.conn = nil
	e.mu.Unlock()
	switch {
	case c == nil:
	case cut, !e.keep, c.ended, c.in.Buffered() > 0, !c.sent():
		_ = c.Close()
	default:
		e.t.put(c)
	}
}

// drop ends the exchange and its connection.
func (e *Exchange) drop() {
	e.keep = false
	e.finish()
}

// body is an answer's body. Its end is that of the exchange.
type body struct {
	io.ReadCloser
	e *Exchange
}

// Read reads from the connection.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch err {
	case nil:
	case io.EOF:
		b.e.finish()
	default:
		b.e.drop()
	}
	return n, err
}

// Close ends the exchange. A body that was not read to its end takes its
// connection with it: reading the rest might take for ever.
func (b *body) Close() error {
	b.e.drop()
	return nil
}
