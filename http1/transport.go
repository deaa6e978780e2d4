package http1

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// Transport keeps the connections to one upstream. It is safe for concurrent
// use. Its fields must not change once it is used.
type Transport struct {
	// Dial opens a connection. Its errors are returned as they are.
	Dial func(ctx context.Context) (net.Conn, error)
	// IdleTimeout is how long a connection may be idle and then be used again;
	// above 0. One that was idle for longer is closed within a second.
	IdleTimeout time.Duration
	// MaxHeaderBytes bounds the head of an answer, and each interim response
	// before it, in bytes; above 0.
	MaxHeaderBytes int64

	mu      sync.Mutex // guards everything below
	idle    []*conn    // the one used last is used next
	retired bool       // connections that come back are closed, until one is wanted
	looking bool       // look will fire
	look    *time.Timer
}

// lookEvery is how often connections are looked at while there are idle ones.
const lookEvery = time.Second

// RoundTrip sends a request and returns the answer with its headers. It may
// return before the request's body has been sent; the body is closed in any
// case. It waits for no read of that body: after an error, too, one may still
// be under way, and the body is closed after it.
//
// The answer's body must be read to its end or closed; it reads from the
// connection in the goroutine of whoever reads it. Interim responses (RFC
// 9110 §15.2) are told to h, one after the other, before RoundTrip returns; an
// error of h ends the exchange and is returned.
//
// e must be new, and ends the exchange when it is interrupted. The end of ctx
// is noticed while a connection is opened, and before anything is sent; after
// that only e tells. An answer of 101 ends the connection: an upgrade that was
// not asked for.
func (t *Transport) RoundTrip(ctx context.Context, req *http.Request, e *Exchange, h InterimHandler) (*http.Response, error) {
	c, err := t.begin(ctx, req, e)
	if err != nil {
		closeBody(req)
		return nil, err
	}
	res, err := c.exchange(req, h, t.MaxHeaderBytes)
	e.ended = c.ended
	if err != nil {
		e.finish(false)
		e.written = c.total()
		return nil, err
	}
	e.written = c.written.Load()
	e.keep = !res.Close && !req.Close && res.StatusCode > 199
	if res.Body == http.NoBody {
		e.finish(true)
	} else {
		res.Body = &body{ReadCloser: res.Body, e: e}
	}
	return res, nil
}

// begin begins an exchange on an idle connection, or on a new one.
func (t *Transport) begin(ctx context.Context, req *http.Request, e *Exchange) (*conn, error) {
	if err := check(req); err != nil {
		return nil, err
	}
	if err := e.over(ctx); err != nil {
		return nil, err
	}
	c := t.take(time.Now())
	e.reused = c != nil
	if c == nil {
		dialled, err := t.Dial(ctx)
		if err != nil {
			return nil, err
		}
		c = newConn(dialled)
	}
	e.t = t
	e.hold(c)
	if err := e.over(ctx); err != nil {
		e.finish(false)
		return nil, err
	}
	return c, nil
}

// take returns an idle connection that seems alive, or nil.
func (t *Transport) take(now time.Time) *conn {
	for {
		t.mu.Lock()
		t.retired = false
		last := len(t.idle) - 1
		if last < 0 {
			t.mu.Unlock()
			return nil
		}
		c := t.idle[last]
		t.idle[last], t.idle = nil, t.idle[:last]
		t.mu.Unlock()
		if now.Sub(c.since) < t.IdleTimeout && c.quiet() {
			return c
		}
		_ = c.Close()
	}
}

// put takes a connection back.
func (t *Transport) put(c *conn) {
	c.since = time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.retired {
		_ = c.Close()
		return
	}
	t.idle = append(t.idle, c)
	switch {
	case t.looking:
		return
	case t.look == nil:
		t.look = time.AfterFunc(lookEvery, t.lookAround)
	default:
		t.look.Reset(lookEvery)
	}
	t.looking = true
}

// lookAround closes the connections that have been idle for too long, or that
// the other side has closed. Those in constant use it leaves to [Transport.take].
func (t *Transport) lookAround() {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	stay := t.idle[:0]
	for _, c := range t.idle {
		idle := now.Sub(c.since)
		if idle < lookEvery || idle < t.IdleTimeout && c.quiet() {
			stay = append(stay, c)
			continue
		}
		_ = c.Close()
	}
	clear(t.idle[len(stay):])
	t.idle = stay
	if t.looking = len(stay) > 0; t.looking {
		t.look.Reset(lookEvery)
	}
}

// CloseIdleConnections closes the idle connections, and those in use when
// their exchanges end, unless another exchange begins before.
func (t *Transport) CloseIdleConnections() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.retired = true
	for _, c := range t.idle {
		_ = c.Close()
	}
	clear(t.idle)
	t.idle = t.idle[:0]
	if t.look != nil {
		t.look.Stop()
	}
	t.looking = false
}
