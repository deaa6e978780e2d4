package http1

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// wire is one end of a connection in memory. Unlike [net.Pipe] it has a buffer,
// as the operating system does, and can be reset. It waits so that the clock of
// testing/synctest goes on.
type wire struct {
	in, out *flow
	mu      sync.Mutex // guards everything below
	closed  time.Time  // zero before
}

// newWire returns a connection's two ends. Each takes so many bytes that the
// other has not read.
func newWire(window int) (near, far *wire) {
	up, down := newFlow(window), newFlow(window)
	return &wire{in: down, out: up}, &wire{in: up, out: down}
}

// flow is one direction of a wire.
type flow struct {
	mu      sync.Mutex // guards everything below
	changed sync.Cond
	window  int
	held    []byte
	fin     bool  // no more will be written
	gone    error // of writing: nobody reads any more
	reset   bool  // of reading: what is held is lost
	shut    bool  // the reading end was closed
}

func newFlow(window int) *flow {
	f := &flow{window: window}
	f.changed.L = &f.mu
	return f
}

func (f *flow) change(to func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	to()
	f.changed.Broadcast()
}

func (f *flow) read(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.held) == 0 && !f.fin && !f.shut && !f.reset {
		f.changed.Wait()
	}
	switch {
	case f.shut:
		return 0, net.ErrClosed
	case f.reset:
		return 0, syscall.ECONNRESET
	case len(f.held) == 0:
		return 0, io.EOF
	}
	n := copy(p, f.held)
	f.held = f.held[n:]
	f.changed.Broadcast()
	return n, nil
}

func (f *flow) write(p []byte) (n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		for len(f.held) >= f.window && f.gone == nil {
			f.changed.Wait()
		}
		if f.gone != nil {
			return n, f.gone
		}
		m := min(len(p)-n, f.window-len(f.held))
		f.held = append(f.held, p[n:n+m]...)
		f.changed.Broadcast()
		if n += m; n == len(p) {
			return n, nil
		}
	}
}

func (w *wire) Read(p []byte) (int, error)  { return w.in.read(p) }
func (w *wire) Write(p []byte) (int, error) { return w.out.write(p) }

func (w *wire) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed.IsZero() {
		return net.ErrClosed
	}
	w.closed = time.Now()
	w.in.change(func() { w.in.shut, w.in.gone = true, nonNil(w.in.gone, syscall.EPIPE) })
	w.out.change(func() { w.out.fin, w.out.gone = true, nonNil(w.out.gone, net.ErrClosed) })
	return nil
}

func nonNil(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// closeWrite ends what this end writes, as shutdown(2) does.
func (w *wire) closeWrite() { w.out.change(func() { w.out.fin = true }) }

// resetBoth ends both directions at once, losing what was not read.
func (w *wire) resetBoth() {
	w.out.change(func() { w.out.reset, w.out.held = true, nil })
	w.in.change(func() { w.in.gone = syscall.ECONNRESET })
	_ = w.Close()
}

// waiting returns whether something can be read: bytes, or an end.
func (w *wire) waiting() bool {
	w.in.mu.Lock()
	defer w.in.mu.Unlock()
	return len(w.in.held) > 0 || w.in.fin || w.in.reset || w.in.shut
}

func (w *wire) isClosed() bool { return !w.closedAt().IsZero() }

func (w *wire) closedAt() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}

func (*wire) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (*wire) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (*wire) SetDeadline(time.Time) error      { return os.ErrNoDeadline }
func (*wire) SetReadDeadline(time.Time) error  { return os.ErrNoDeadline }
func (*wire) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }

// SyscallConn lets the probe look at the wire: through a real descriptor in the
// wire's place, on which there is something to see when there is on the wire.
func (w *wire) SyscallConn() (syscall.RawConn, error) { return look{w}, nil }

type look struct{ w *wire }

func (l look) Read(f func(fd uintptr) bool) error {
	if l.w.isClosed() {
		return net.ErrClosed
	}
	if l.w.waiting() {
		f(standIns.ended)
	} else {
		f(standIns.silent)
	}
	return nil
}
func (look) Write(func(uintptr) bool) error { return errors.ErrUnsupported }
func (look) Control(func(uintptr)) error    { return errors.ErrUnsupported }
