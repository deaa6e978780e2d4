package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
)

// far is an upstream at the far end of net/http's own Transport, over pipes:
// for each connection it plays, one after the other, what it does with a
// request.
type far struct {
	mu       sync.Mutex
	requests []string // as they came over the wire
	dials    int
	plays    []func(conn net.Conn, in *bufio.Reader) bool // whether the connection lives on
	wrap     func(net.Conn) net.Conn                      // the near end
}

// wired puts net/http's Transport into the rig, with pipes to far.
func (r *rig) wired(f *far) {
	p := newPool(r.d.current.Load().settings)
	p.dialer.dial = func(context.Context, string, string) (net.Conn, error) {
		near, end := net.Pipe()
		f.mu.Lock()
		f.dials++
		f.mu.Unlock()
		go f.serve(end)
		if f.wrap != nil {
			near = f.wrap(near)
		}
		return near, nil
	}
	r.d.current.Load().pool = p
	r.up.unseen = 0
}

func (f *far) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	in := bufio.NewReader(conn)
	for {
		head, err := readHead(in)
		if err != nil {
			return
		}
		f.mu.Lock()
		f.requests = append(f.requests, head)
		var play func(net.Conn, *bufio.Reader) bool
		if len(f.plays) > 0 {
			play, f.plays = f.plays[0], f.plays[1:]
		}
		f.mu.Unlock()
		if play == nil {
			play = answers("200 OK", "it")
		}
		if !play(conn, in) {
			return
		}
	}
}

// readHead reads up to the empty line.
func readHead(in *bufio.Reader) (string, error) {
	var head strings.Builder
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return "", err
		}
		if head.WriteString(line); line == "\r\n" {
			return head.String(), nil
		}
	}
}

func answers(status, body string) func(net.Conn, *bufio.Reader) bool {
	return func(conn net.Conn, _ *bufio.Reader) bool {
		_, err := fmt.Fprintf(conn, "HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s", status, len(body), body)
		return err == nil
	}
}

// hangsUp closes the connection in place of an answer, after n bytes of the
// request body.
func hangsUp(n int) func(net.Conn, *bufio.Reader) bool {
	return func(_ net.Conn, in *bufio.Reader) bool {
		_, _ = io.CopyN(io.Discard, in, int64(n))
		return false
	}
}

// seen checks the number of requests the far end got, and tells nothingLeft.
func (r *rig) seen(f *far, n int) {
	r.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.requests) != n {
		r.Errorf("%d requests over the wire, want %d: %q", len(f.requests), n, f.requests)
	}
	r.up.unseen = -len(f.requests)
}

// A request without a body goes out as it came.
func TestWireWithoutBody(t *testing.T) {
	key := http.Header{"Idempotency-Key": {"k"}}
	for _, c := range []struct {
		method string
		header http.Header
		extra  string
	}{
		{"GET", nil, ""},
		{"HEAD", nil, ""},
		{"DELETE", nil, ""},
		{"OPTIONS", nil, ""},
		{"PROPFIND", nil, ""},
		{"GET", key, "Idempotency-Key: k\r\n"},
		{"POST", nil, "Content-Length: 0\r\n"},
		{"PUT", nil, "Content-Length: 0\r\n"},
		{"PATCH", nil, "Content-Length: 0\r\n"},
		{"POST", key, "Content-Length: 0\r\nIdempotency-Key: k\r\n"},
	} {
		bubble(t, nil, func(r *rig) {
			f := &far{plays: []func(net.Conn, *bufio.Reader) bool{answers("200 OK", "")}}
			r.wired(f)
			r.call(caller{method: c.method, target: "/x;y//%2F?z", header: c.header})
			r.seen(f, 1)
			if got, want := f.requests[0], c.method+" /x;y//%2F?z HTTP/1.1\r\nHost: upstream.internal\r\n"+c.extra+"\r\n"; got != want {
				r.Errorf("sent %q, want %q", got, want)
			}
		})
	}
}

// A request with a body keeps its framing.
func TestWireWithBody(t *testing.T) {
	for _, c := range []struct {
		length        int64
		framing, body string
	}{{0, "Content-Length: 3", "abc"}, {-1, "Transfer-Encoding: chunked", "3\r\nabc\r\n0\r\n\r\n"}} {
		bubble(t, nil, func(r *rig) {
			body := make([]byte, len(c.body))
			f := &far{plays: []func(net.Conn, *bufio.Reader) bool{func(conn net.Conn, in *bufio.Reader) bool {
				_, _ = io.ReadFull(in, body)
				return answers("200 OK", "it")(conn, in)
			}}}
			r.wired(f)
			r.call(caller{method: "PUT", body: text("abc"), length: c.length}).want(t, 200, "it", 0)
			r.seen(f, 1)
			if want := "PUT / HTTP/1.1\r\nHost: upstream.internal\r\n" + c.framing + "\r\n\r\n"; f.requests[0] != want || string(body) != c.body {
				r.Errorf("sent %q %q, want %q %q", f.requests[0], body, want, c.body)
			}
		})
	}
}

// A kept-alive connection that dies after the request has been read is not
// tried again by anybody: the upstream may have acted on it.
func TestNothingIsSentTwice(t *testing.T) {
	key := http.Header{"Idempotency-Key": {"k"}, "X-Idempotency-Key": {"k"}}
	for _, c := range []caller{
		{}, {method: "HEAD"}, {method: "OPTIONS"}, {method: "DELETE"}, {method: "TRACE"},
		{method: "POST", header: key}, {method: "PUT", header: key}, {header: key}, {method: "PUT", header: key, body: text("x")},
	} {
		t.Run(c.method, func(t *testing.T) {
			bubble(t, nil, func(r *rig) {
				f := &far{plays: []func(net.Conn, *bufio.Reader) bool{answers("200 OK", "it"), hangsUp(int(total(c.body)))}}
				r.wired(f)
				r.get("/").want(t, 200, "it", 0)
				synctest.Wait()
				if got := r.call(c); got.status != 502 {
					r.Errorf("got %d, want 502", got.status)
				}
				r.seen(f, 2)
				if h := r.lastCall(); h.Attempts != 1 || h.Reason != ReasonReset || f.dials != 1 {
					r.Errorf("%d attempts, %s, %d connections; want 1, reset, 1", h.Attempts, h.Reason, f.dials)
				}
				r.wantEvidence(evidence{calls: 2, failures: 1})
			})
		})
	}
}

// dying is a connection on which nothing can be written after the first
// request, though it does not look closed.
type dying struct {
	net.Conn
	writes int
}

func (c *dying) Write(p []byte) (int, error) {
	if c.writes++; c.writes > 1 {
		return 0, syscall.EPIPE
	}
	return c.Conn.Write(p)
}

// One that had died before is replaced silently.
func TestDeadConnectionOnTheWire(t *testing.T) {
	for _, c := range []caller{{}, {method: "POST"}, {method: "DELETE"}, {method: "POST", body: text("x")}} {
		bubble(t, func(s *Settings) { s.Retry.MaxRetries, s.Retry.MaxBodyBytes = 1, 10 }, func(r *rig) {
			f := &far{}
			f.wrap = func(conn net.Conn) net.Conn {
				if f.dials > 1 {
					return conn
				}
				return &dying{Conn: conn}
			}
			if c.body != nil {
				f.plays = []func(net.Conn, *bufio.Reader) bool{answers("200 OK", "it"), func(conn net.Conn, in *bufio.Reader) bool {
					_, _ = in.ReadByte()
					return answers("200 OK", "it")(conn, in)
				}}
			}
			r.wired(f)
			r.get("/")
			synctest.Wait()
			r.call(c).want(t, 200, "it", 0)
			r.seen(f, 2)
			if h := r.lastCall(); h.Attempts != 1 || f.dials != 2 {
				r.Errorf("%s: %d attempts, %d connections; want 1, 2", c.method, h.Attempts, f.dials)
			}
			r.wantEvidence(evidence{calls: 2})
		})
	}
}

// What net/http says of bad answers is told apart.
func TestWireFailures(t *testing.T) {
	says := func(s string) func(net.Conn, *bufio.Reader) bool {
		return func(conn net.Conn, _ *bufio.Reader) bool {
			_, _ = io.WriteString(conn, s)
			return false
		}
	}
	for _, c := range []struct {
		name string
		play func(net.Conn, *bufio.Reader) bool
		why  Reason
	}{
		{"closed", hangsUp(0), ReasonReset},
		{"half the headers", says("HTTP/1.1 200 OK\r\nA: b\r\n"), ReasonReset},
		{"half a line", says("HTTP/1.1 200 OK\r\nContent-"), ReasonReset},
		{"not HTTP", says("SSH-2.0-x\r\n\r\n"), ReasonProtocol},
		{"bad length", says("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"), ReasonProtocol},
		{"headers without end", says("HTTP/1.1 200 OK\r\nA: " + strings.Repeat("x", maxResponseHeader+1) + "\r\n\r\n"), ReasonProtocol},
		{"silence", func(_ net.Conn, in *bufio.Reader) bool { _, _ = in.ReadByte(); return false }, ReasonTimeout},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, nil, func(r *rig) {
				f := &far{plays: []func(net.Conn, *bufio.Reader) bool{c.play}}
				r.wired(f)
				r.get("/")
				r.seen(f, 1)
				if h := r.lastCall(); h.Reason != c.why || h.Attempts != 1 {
					r.Errorf("%d attempts, %s; want 1, %s", h.Attempts, h.Reason, c.why)
				}
				r.wantEvidence(failure)
			})
		})
	}
}

// A body that breaks off is passed on as broken, from the real Transport too.
func TestWireBrokenBody(t *testing.T) {
	for _, head := range []string{"Content-Length: 9\r\n\r\nhalf", "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"} {
		bubble(t, nil, func(r *rig) {
			f := &far{plays: []func(net.Conn, *bufio.Reader) bool{func(conn net.Conn, _ *bufio.Reader) bool {
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n"+head)
				return false
			}}}
			r.wired(f)
			got := r.get("/")
			if !got.aborted || got.body != "half" || r.lastCall().Reason != ReasonReset {
				r.Errorf("got %q, aborted=%v, %s", got.body, got.aborted, r.lastCall().Reason)
			}
			r.seen(f, 1)
			r.wantEvidence(failure)
		})
	}
}
