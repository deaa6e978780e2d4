package proxy

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sidecar/resilience/breaker"
)

// listener is a net/http server's, over pipes.
type listener struct {
	conns chan net.Conn
	done  chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error   { close(l.done); return nil }
func (l *listener) Addr() net.Addr { return &net.TCPAddr{} }

// served puts the dependency behind net/http's own server, and calls test
// with an app's connection to it.
func served(t *testing.T, change func(*Settings), test func(r *rig, conn net.Conn, in *bufio.Reader)) {
	t.Helper()
	bubble(t, change, func(r *rig) {
		l := &listener{conns: make(chan net.Conn), done: make(chan struct{})}
		server := &http.Server{Handler: r.d, ErrorLog: quiet}
		go func() { _ = server.Serve(l) }()
		near, far := net.Pipe()
		l.conns <- far
		test(r, near, bufio.NewReader(near))
		_ = near.Close()
		synctest.Wait()
		_ = server.Close()
		r.made = make([]*answer, 0)
		for range r.calls {
			r.made = append(r.made, done())
		}
	})
}

// done is an answer that needs no waiting for.
func done() *answer {
	a := &answer{over: make(chan struct{}), heard: make(chan struct{})}
	close(a.over)
	close(a.heard)
	return a
}

func say(t *testing.T, conn net.Conn, s string) {
	t.Helper()
	if _, err := io.WriteString(conn, s); err != nil {
		t.Error(err)
	}
}

// wantAnswer reads an answer over the wire.
func wantAnswer(t *testing.T, in *bufio.Reader, status int, closes bool) {
	t.Helper()
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Error(err)
	}
	if res.StatusCode != status || res.Close != closes {
		t.Errorf("got %d, close=%v; want %d, %v", res.StatusCode, res.Close, status, closes)
	}
}

const (
	whole    = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody"
	stalling = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nbody"
)

// A refusal does not wait for an upload that stalls; a caller that has sent
// all keeps its connection.
func TestRefusalOfAnUpload(t *testing.T) {
	served(t, nil, func(r *rig, conn net.Conn, in *bufio.Reader) {
		r.d.Force(breaker.ForcedOpen)
		for range 2 {
			say(t, conn, whole)
			wantAnswer(t, in, 503, false)
		}
		began := time.Now()
		say(t, conn, stalling)
		wantAnswer(t, in, 503, true)
		if took := time.Since(began); took != drainTime {
			r.Errorf("refused after %v, want %v", took, drainTime)
		}
	})
}

// A refused caller is not asked for its body.
func TestRefusalInPlaceOfContinue(t *testing.T) {
	served(t, nil, func(r *rig, conn net.Conn, in *bufio.Reader) {
		r.d.Force(breaker.ForcedOpen)
		began := time.Now()
		say(t, conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n")
		wantAnswer(t, in, 503, true)
		if took := time.Since(began); took != 0 {
			r.Errorf("refused after %v, want at once", took)
		}
	})
}

// An answer that does not wait for the upload to end goes out at once, and the
// connection is closed after it. So it is with a fallback.
func TestAnswerDuringUpload(t *testing.T) {
	for status, up := range map[int]reply{201: {status: 201, early: true, after: ms(10), body: text("it")}, 202: {status: 500, early: true, after: ms(10)}} {
		served(t, fallbacks(static(202, "own")), func(r *rig, conn net.Conn, in *bufio.Reader) {
			r.up.will(up)
			began := time.Now()
			say(t, conn, strings.Replace(stalling, "POST", "GET", 1))
			wantAnswer(t, in, status, true)
			if took := time.Since(began); took != ms(10) {
				r.Errorf("answered after %v, want 10ms", took)
			}
			if _, err := in.ReadByte(); err != io.EOF {
				r.Errorf("the connection is still open: %v", err)
			}
		})
	}
}

// slow is a body that ends after a while, whatever the deadline.
type slow struct{}

func (slow) Read([]byte) (int, error) {
	time.Sleep(time.Second)
	return 0, io.EOF
}

// Once a body is given up nothing more of it is read, and that is nobody's
// fault.
func TestCallerBodyIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &answer{}
		a.conn, a.app = net.Pipe()
		b := newCallerBody(io.NopCloser(strings.NewReader("body")), 0, http.NewResponseController(a))
		b.interrupt()
		if n, err := b.Read(make([]byte, 9)); n != 0 || !errors.Is(err, errCallEnded) || b.fault() != nil || b.complete() {
			t.Errorf("read %d, %v, fault %v, complete %v", n, err, b.fault(), b.complete())
		}
		b = newCallerBody(io.NopCloser(slow{}), 0, http.NewResponseController(a))
		if b.drain() {
			t.Error("the connection has a read deadline in the past and is to be used again")
		}
	})
}

// After a timeout the connection is as good as new.
func TestConnectionAfterTimeout(t *testing.T) {
	served(t, noTries, func(r *rig, conn net.Conn, in *bufio.Reader) {
		r.up.will(reply{after: forever}, reply{}, reply{})
		say(t, conn, whole)
		wantAnswer(t, in, 504, false)
		time.Sleep(time.Minute)
		say(t, conn, whole)
		wantAnswer(t, in, 200, false)
		say(t, conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		wantAnswer(t, in, 200, false)
	})
}

// K6: what comes after a body that stalled is no request.
func TestConnectionAfterStall(t *testing.T) {
	served(t, nil, func(r *rig, conn net.Conn, in *bufio.Reader) {
		say(t, conn, stalling)
		wantAnswer(t, in, 408, true)
		_, _ = io.WriteString(conn, "GET /quit HTTP/1.1\r\nHost: x\r\n\r\n")
		if _, err := in.ReadByte(); err != io.EOF {
			r.Errorf("the connection is still open: %v", err)
		}
		if r.up.count() != 1 {
			r.Errorf("upstream saw %d requests, want 1", r.up.count())
		}
	})
}

// A broken answer ends without the end that its framing promised.
func TestBrokenAnswerOnTheWire(t *testing.T) {
	for _, length := range []int64{9, -1} {
		served(t, nil, func(r *rig, conn net.Conn, in *bufio.Reader) {
			r.up.will(reply{length: length, body: []step{{text: "half"}, {after: ms(100), err: errReset}}})
			say(t, conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			all, _ := io.ReadAll(in)
			if got := string(all); !strings.HasPrefix(got, "HTTP/1.1 200 OK\r\n") || !strings.Contains(got, "half") || strings.Contains(got, "\r\n0\r\n") {
				r.Errorf("got %q", got)
			}
		})
	}
}
