package proxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// caller is one request of an app and how the app behaves while it lasts.
type caller struct {
	method, target, host string
	header               http.Header
	body                 []step        // the upload; it blocks after the last step if length promises more
	length               int64         // Content-Length; 0 = what the body's text makes, negative = unknown
	leaves               time.Duration // closes the connection after this; 0 = stays
	hears                time.Duration // begins to read the answer after this
}

// answer is what the app got, and the server's end of its connection: an
// [http.ResponseWriter] over a [net.Pipe].
type answer struct {
	conn  net.Conn // the server's end
	app   net.Conn
	req   *http.Request
	began time.Time
	over  chan struct{} // the handler has returned
	heard chan struct{} // the app has read all

	mu       sync.Mutex
	head     http.Header // the handler's
	informed []int
	hijacked bool
	deadline time.Time // the last write deadline

	status  int
	header  http.Header // as it stood when the status was sent
	body    string
	aborted bool          // the connection was broken off
	took    time.Duration // until the handler returned
}

// dial connects and sends the request's head; the body follows as scripted.
func (c caller) dial(t *testing.T) *answer {
	t.Helper()
	a := &answer{
		req: c.request(t), began: time.Now(), head: http.Header{},
		over: make(chan struct{}), heard: make(chan struct{}),
	}
	a.conn, a.app = net.Pipe()
	ctx, leave := context.WithCancel(a.req.Context())
	a.req = a.req.WithContext(ctx)
	var leaving *time.Timer
	if c.leaves > 0 {
		leaving = time.AfterFunc(c.leaves, func() {
			_ = a.app.Close()
			leave()
		})
	}
	if c.body != nil {
		a.req.ContentLength = c.length
		if c.length == 0 {
			a.req.ContentLength = total(c.body)
		}
		u := &upload{conn: a.conn}
		u.left.Store(max(a.req.ContentLength, total(c.body)))
		a.req.Body = u
		go c.send(ctx, a)
	}
	go a.listen(c.hears)
	go func() {
		<-a.over
		if leaving != nil {
			leaving.Stop()
		}
		leave()
		_ = a.conn.Close()
	}()
	return a
}

// send plays the upload.
func (c caller) send(ctx context.Context, a *answer) {
	for _, s := range c.body {
		if sleep(ctx, s.after) != nil {
			return
		}
		if s.err != nil {
			_ = a.app.Close()
			return
		}
		if _, err := io.WriteString(a.app, s.text); err != nil {
			return
		}
	}
}

// listen reads the answer's body.
func (a *answer) listen(after time.Duration) {
	defer close(a.heard)
	if after > 0 {
		select {
		case <-time.After(after):
		case <-a.over:
		}
	}
	var b bytes.Buffer
	_, _ = io.Copy(&b, a.app)
	a.body = b.String()
}

// serve is net/http's part.
func (a *answer) serve(h http.Handler) {
	defer close(a.over)
	defer func() {
		a.took = time.Since(a.began)
		if p := recover(); p != nil {
			if err, _ := p.(error); !errors.Is(err, http.ErrAbortHandler) {
				panic(p)
			}
			a.aborted = true
			return
		}
		if a.status == 0 && !a.hijacked {
			a.WriteHeader(http.StatusOK)
		}
	}()
	h.ServeHTTP(a, a.req)
}

// wait returns the answer once it is complete.
func (a *answer) wait() *answer {
	<-a.over
	<-a.heard
	return a
}

// want checks status, body and time.
func (a *answer) want(t *testing.T, status int, body string, took time.Duration) {
	t.Helper()
	if a.aborted || a.status != status || a.body != body || a.took != took {
		t.Errorf("got %d %q after %v, aborted=%v; want %d %q after %v", a.status, a.body, a.took, a.aborted, status, body, took)
	}
}

func (a *answer) Header() http.Header { return a.head }

func (a *answer) WriteHeader(status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case status < 200 && status != http.StatusSwitchingProtocols:
		a.informed = append(a.informed, status)
	case a.status == 0:
		a.status, a.header = status, a.head.Clone()
	}
}

func (a *answer) Write(p []byte) (int, error) {
	if a.hijacked {
		return 0, http.ErrHijacked
	}
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	if len(p) == 0 {
		return 0, nil
	}
	return a.conn.Write(p)
}

func (a *answer) FlushError() error {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	return nil
}

func (a *answer) SetReadDeadline(at time.Time) error { return a.conn.SetReadDeadline(at) }

func (a *answer) SetWriteDeadline(at time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.deadline = at
	return a.conn.SetWriteDeadline(at)
}

func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	a.hijacked = true
	return a.conn, bufio.NewReadWriter(bufio.NewReader(a.conn), bufio.NewWriter(a.conn)), nil
}

// upload is a request's body on the server's end.
type upload struct {
	conn net.Conn
	left atomic.Int64
}

func (u *upload) Read(p []byte) (int, error) {
	left := u.left.Load()
	if left == 0 {
		return 0, io.EOF
	}
	n, err := u.conn.Read(p[:min(int64(len(p)), left)])
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if u.left.Add(-int64(n)) == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

func (u *upload) Close() error { return nil }
