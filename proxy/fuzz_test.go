package proxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// wireEnd is an upstream at the far end of net/http's own Transport, over
// pipes, that reads requests as any server would.
type wireEnd struct {
	play func(n int, r *http.Request, conn net.Conn) (alive bool) // n counts from 0

	mu       sync.Mutex // guards everything below
	requests int
	garbage  error // what came where a request should begin
}

// far puts net/http's Transport into the rig, with pipes to an upstream.
func (r *rig) far(w *wireEnd) {
	s := r.d.current.Load().settings
	p := newPool(s)
	p.dialer.dial = func(context.Context, string, string) (net.Conn, error) {
		near, end := net.Pipe()
		go w.serve(end)
		return near, nil
	}
	r.d.current.Load().pool = p
}

func (w *wireEnd) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	in := bufio.NewReader(conn)
	for {
		if _, err := in.Peek(1); err != nil {
			return
		}
		req, err := http.ReadRequest(in)
		w.mu.Lock()
		n := w.requests
		switch {
		case err == nil:
			w.requests++
		case !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrClosedPipe):
			w.garbage = err
		}
		w.mu.Unlock()
		if err != nil || !w.play(n, req, conn) {
			return
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return
		}
	}
}

// settle makes the rig's account of what the upstream saw fit one that reads
// the wire: an attempt that was given up early may not have been seen there.
func (r *rig) settle(w *wireEnd) (attempts int) {
	r.Helper()
	synctest.Wait()
	r.mu.Lock()
	attempts = len(r.attempts)
	r.mu.Unlock()
	r.up.unseen = -attempts
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.requests > attempts {
		r.Errorf("the upstream read %d requests, %d attempts were counted", w.requests, attempts)
	}
	if w.garbage != nil {
		r.Errorf("the upstream read what is no request: %v", w.garbage)
	}
	return attempts
}

// FuzzReplay drives retries with arbitrary bodies, chunkings and attempts that
// are given up at arbitrary places: each byte of plays is one attempt. What the
// upstream read of each must be the caller's body from its beginning, and all
// of it where the upstream read to the end.
func FuzzReplay(f *testing.F) {
	f.Add([]byte("hello, world"), []byte{3, 200, 1}, []byte{0, 5, 10, 15}, uint16(50), false)
	f.Add([]byte("hello, world"), []byte{1, 0, 2}, []byte{1, 2}, uint16(5), true)
	f.Add([]byte(""), []byte{}, []byte{3, 3, 3}, uint16(0), true)
	f.Add(bytes.Repeat([]byte("x"), 5000), []byte{255, 255, 7}, []byte{41, 42, 43, 0}, uint16(4999), true)
	f.Fuzz(func(t *testing.T, body, pieces, plays []byte, limit uint16, chunked bool) {
		body, plays = body[:min(len(body), 10_000)], plays[:min(len(plays), 8)]
		policy := both(retries(len(plays)), func(s *Settings) {
			s.Retry.MaxBodyBytes = int64(limit)
			s.Timeout, s.AttemptTimeout = time.Hour, time.Minute
		})
		bubble(t, policy, func(r *rig) {
			var mu sync.Mutex
			var whole int
			w := &wireEnd{play: func(n int, req *http.Request, conn net.Conn) bool {
				got, ended, alive := playReplay(n, plays, req, conn)
				mu.Lock()
				defer mu.Unlock()
				if !bytes.HasPrefix(body, got) || ended && len(got) != len(body) {
					t.Errorf("attempt %d read %d bytes, ended %v, of the caller's %d: %.100q", n, len(got), ended, len(body), got)
				}
				if ended {
					whole = n + 1
				}
				return alive
			}}
			r.far(w)
			c := caller{method: http.MethodPut, body: cutUp(body, pieces)}
			if chunked {
				c.length = -1
			}
			a := r.call(c)
			attempts := r.settle(w)
			mu.Lock()
			defer mu.Unlock()
			if a.status == http.StatusOK && whole != attempts {
				t.Errorf("200 after %d attempts, but the last to read it all was %d", attempts, whole)
			}
			if attempts == len(plays)+1 && a.status != http.StatusOK {
				t.Errorf("the last of %d attempts succeeds, but the caller got %d", attempts, a.status)
			}
		})
	})
}

// playReplay answers one attempt as its byte says, the last one with 200: after
// the whole body or a part of it, with a status or with the connection's end.
func playReplay(n int, plays []byte, req *http.Request, conn net.Conn) (got []byte, ended, alive bool) {
	answer := "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n"
	part := int64(-1)
	switch {
	case n >= len(plays):
		answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
	case plays[n]%4 == 1:
		part = int64(plays[n] / 4)
	case plays[n]%4 == 2:
		part, answer = int64(plays[n])*16, ""
	case plays[n]%4 == 3:
		answer = ""
	}
	if part >= 0 {
		got, _ = io.ReadAll(io.LimitReader(req.Body, part))
		_, _ = io.WriteString(conn, answer)
		return got, false, false
	}
	got, err := io.ReadAll(req.Body)
	if err == nil {
		_, _ = io.WriteString(conn, answer)
	}
	return got, err == nil, err == nil && answer != ""
}

// cutUp makes steps of a body, as long as the pieces say and with pauses.
func cutUp(body, pieces []byte) []step {
	var steps []step
	for i := 0; len(body) > 0; i++ {
		n := len(body)
		var after time.Duration
		if i < len(pieces) {
			n = min(n, int(pieces[i])+1)
			after = time.Duration(pieces[i]%3) * ms(10)
		}
		steps = append(steps, step{after: after, text: string(body[:n])})
		body = body[n:]
	}
	return steps
}

// FuzzListener sends arbitrary bytes to a listener, in two parts with a pause
// between them: there is no panic, nothing hangs, and the upstream sees no
// request that was not counted as a call.
func FuzzListener(f *testing.F) {
	const host = " HTTP/1.1\r\nHost: x\r\n"
	for _, seed := range []string{
		"GET /" + host + "\r\nGET /2" + host + "\r\n",
		"POST /" + host + "Content-Length: 4\r\n\r\nbodyGET /quit" + host + "\r\n",
		"POST /" + host + "Content-Length: 40\r\n\r\nGET /quit" + host + "\r\n",
		"POST /" + host + "Transfer-Encoding: chunked\r\n\r\n4;x=y\r\nbody\r\n0\r\nX: y\r\n\r\nGET /2" + host + "\r\n",
		"POST /" + host + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\nX",
		"PUT /" + host + "Expect: 100-continue\r\nContent-Length: 2\r\n\r\nhi",
		"GET /" + host + "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\nframes",
		"OPTIONS *" + host + "\r\n", "CONNECT a:1" + host + "\r\n", "GET http://other/" + host + "\r\n",
		"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET / HTTP/1.0\r\n\r\n",
		"TRACE /a;b//%2F/..?x=%zz" + host + "TE: trailers\r\nConnection: TE, X\r\nX: 1\r\nTrailer: Y\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00" + // SETTINGS, then HEADERS: GET / of host x
			"\x00\x00\x0a\x01\x05\x00\x00\x00\x01\x82\x86\x84\x41\x01x\x0f\x0d\x01\x30",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00" + // POST with DATA and RST_STREAM
			"\x00\x00\x06\x01\x04\x00\x00\x00\x01\x83\x86\x84\x41\x01x\x00\x00\x02\x00\x00\x00\x00\x00\x01hi\x00\x00\x04\x03\x00\x00\x00\x00\x01\x00\x00\x00\x08",
	} {
		f.Add([]byte(seed), uint16(len(seed)/2), false)
		f.Add([]byte(seed), uint16(len(seed)), true)
	}
	f.Fuzz(func(t *testing.T, sent []byte, pause uint16, retried bool) {
		policy := func(s *Settings) { s.Protocol = ProtocolHTTP1 }
		if retried {
			policy = both(retries(2), policy)
		}
		bubble(t, policy, func(r *rig) {
			w := &wireEnd{play: func(n int, req *http.Request, conn net.Conn) bool {
				if req.Method == http.MethodHead {
					_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
					return true
				}
				status := []string{"200 OK", "503 No"}[n%2]
				_, _ = fmt.Fprintf(conn, "HTTP/1.1 %s\r\nContent-Length: 2\r\n\r\nok", status)
				return true
			}}
			r.far(w)
			// A delayed flush holds a lock while it waits, and the clock of the
			// bubble does not go on while somebody waits for that.
			r.d.reverse.FlushInterval = 0
			r.talk(sent, int(pause))
			r.mu.Lock()
			calls := len(r.calls)
			tries := 0
			for _, c := range r.calls {
				tries += c.Attempts
			}
			r.mu.Unlock()
			attempts := r.settle(w)
			if attempts != tries || !retried && attempts > calls {
				t.Errorf("%d attempts of %d calls, which know of %d", attempts, calls, tries)
			}
			for range calls {
				r.made = append(r.made, done())
			}
		})
	})
}

// talk puts the dependency behind a server that is set up as the supervisor
// does, sends bytes to it, and leaves after a minute.
func (r *rig) talk(sent []byte, pause int) {
	l := &listener{conns: make(chan net.Conn), done: make(chan struct{})}
	var panics strings.Builder
	server := &http.Server{
		Handler: r.d, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 3 * time.Minute, MaxHeaderBytes: 1 << 20,
		ErrorLog: log.New(&panics, "", 0), ConnContext: ConnContext, Protocols: new(http.Protocols),
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 4096}, DisableGeneralOptionsHandler: true,
	}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = server.Serve(l) }()
	near, far := net.Pipe()
	l.conns <- far
	go func() { _, _ = io.Copy(io.Discard, near) }()
	go func() {
		cut := min(pause, len(sent))
		if _, err := near.Write(sent[:cut]); err == nil {
			time.Sleep(time.Second)
			_, _ = near.Write(sent[cut:])
		}
	}()
	time.Sleep(time.Minute)
	_ = near.Close()
	synctest.Wait()
	if n := r.d.InFlight(); n != 0 {
		r.Errorf("%d calls outlive their caller", n)
	}
	_ = server.Close()
	synctest.Wait()
	if strings.Contains(panics.String(), "panic") {
		r.Error(panics.String())
	}
}
