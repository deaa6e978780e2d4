package proxy

import (
	"context"
	"net"
	"sync"
	"time"
)

// watchInterval is how soon a waiting call whose caller has left is noticed.
const watchInterval = 50 * time.Millisecond

// connKey is the context key of the caller's connection.
type connKey struct{}

// ConnContext is for [net/http.Server.ConnContext]. net/http notices that a
// caller has left only once the request body has been read, which must not
// happen while the call waits for a permit; with its connection at hand, the
// proxy can ask the operating system.
func ConnContext(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// watchCaller ends the call when its caller leaves before the body has been
// read. It must be stopped before the body is read. Calls without a body need
// no watch, and the first look comes too late for a call that does not wait.
func (c *call) watchCaller() (stop func()) {
	conn, ok := c.r.Context().Value(connKey{}).(net.Conn)
	if !ok || c.body == nil {
		return func() {}
	}
	w := &callerWatch{}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(watchInterval, func() {
		if hasLeft(conn) {
			c.cancel(errLeft)
			return
		}
		w.again()
	})
	return w.stop
}

// callerWatch is a timer that starts itself anew until it is stopped. It is
// safe for concurrent use.
type callerWatch struct {
	mu      sync.Mutex // guards everything below
	timer   *time.Timer
	stopped bool
}

func (w *callerWatch) again() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.stopped {
		w.timer.Reset(watchInterval)
	}
}

func (w *callerWatch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	w.timer.Stop()
}
