package e2e

import (
	"bufio"
	encoding "encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// The HTTP/2 frames that a scripted upstream needs (RFC 9113 §6).
const (
	frameData, frameHeaders, frameReset, frameSettings, framePing, frameGoAway = 0, 1, 3, 4, 6, 7
	flagEnd, flagAck, flagEndHeaders                                           = 1, 1, 4
	codeNone, codeInternal, codeRefused, codeEnhance                           = 0, 2, 7, 11
)

// framed is one HTTP/2 connection at a scripted upstream.
type framed struct {
	conn net.Conn
	n    int // of the connection, from 1
	mu   sync.Mutex
}

// frame sends a frame.
func (f *framed) frame(kind, flags byte, stream uint32, payload []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	head := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags}
	head = encoding.BigEndian.AppendUint32(head, stream)
	_, _ = f.conn.Write(append(head, payload...))
}

// answer sends a whole response: status 200, no fields, no body.
func (f *framed) answer(stream uint32) {
	f.frame(frameHeaders, flagEnd|flagEndHeaders, stream, []byte{0x88}) // ":status: 200" of the static table, RFC 7541
}

// reset ends a stream.
func (f *framed) reset(stream, code uint32) {
	f.frame(frameReset, 0, stream, encoding.BigEndian.AppendUint32(nil, code))
}

// goAway says which stream was the last to be processed.
func (f *framed) goAway(last, code uint32) {
	f.frame(frameGoAway, 0, 0, encoding.BigEndian.AppendUint32(encoding.BigEndian.AppendUint32(nil, last), code))
}

// frameServer is an h2c upstream that lets a script see each request, counted
// from 1 over all connections. It is safe for concurrent use.
type frameServer struct {
	addr   string
	script func(f *framed, stream uint32, n int)

	mu       sync.Mutex // guards everything below
	requests int
	conns    []net.Conn
}

func newFrameServer(t *testing.T, script func(f *framed, stream uint32, n int)) *frameServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	v := &frameServer{addr: l.Addr().String(), script: script}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			v.mu.Lock()
			v.conns = append(v.conns, c)
			f := &framed{conn: c, n: len(v.conns)}
			v.mu.Unlock()
			work.Go(func() { v.serve(f) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		v.drop()
		work.Wait()
	})
	return v
}

// drop closes every connection.
func (v *frameServer) drop() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, c := range v.conns {
		_ = c.Close()
	}
}

// seen returns how many requests came on how many connections.
func (v *frameServer) seen() (requests, connections int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.requests, len(v.conns)
}

func (v *frameServer) serve(f *framed) {
	defer f.conn.Close()
	in := bufio.NewReader(f.conn)
	if _, err := io.CopyN(io.Discard, in, int64(len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))); err != nil {
		return
	}
	f.frame(frameSettings, 0, 0, nil)
	head := make([]byte, 9)
	for {
		if _, err := io.ReadFull(in, head); err != nil {
			return
		}
		payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(in, payload); err != nil {
			return
		}
		stream := encoding.BigEndian.Uint32(head[5:]) & (1<<31 - 1)
		switch kind, flags := head[3], head[4]; {
		case kind == frameSettings && flags&flagAck == 0:
			f.frame(frameSettings, flagAck, 0, nil)
		case kind == framePing && flags&flagAck == 0:
			f.frame(framePing, flagAck, 0, payload)
		case kind == frameHeaders:
			v.mu.Lock()
			v.requests++
			n := v.requests
			v.mu.Unlock()
			v.script(f, stream, n)
		}
	}
}

// refusing is how an upstream treats a number of calls.
type refusing struct {
	script          func(f *framed, stream uint32, n int)
	calls, answered int
	most            int // requests
}

// What happened: an HTTP/2 transport sent requests again by itself, which no
// metric told, or failed calls that the upstream had said it had not touched.
// Right: what was refused or not processed (RFC 9113 §8.7) may be sent again,
// what may have been processed is not; attempts counted are requests seen.
func TestG7_HiddenHTTP2Retries(t *testing.T) {
	t.Parallel()
	type row struct {
		name, method string
		refusing
		server *frameServer
	}
	var rows []row
	yaml := base + "dependencies:\n"
	for name, c := range map[string]refusing{
		"refused once": {calls: 3, answered: 3, most: 4, script: func(f *framed, stream uint32, n int) {
			if n == 2 {
				f.reset(stream, codeRefused)
				return
			}
			f.answer(stream)
		}},
		"always refused": {calls: 1, answered: 0, most: 10, script: func(f *framed, stream uint32, _ int) { f.reset(stream, codeRefused) }},
		"going away before it": {calls: 3, answered: 3, most: 4, script: func(f *framed, stream uint32, n int) {
			if n == 2 {
				f.goAway(stream-2, codeNone)
				return
			}
			f.answer(stream)
		}},
		"going away after it": {calls: 3, answered: 3, most: 3, script: func(f *framed, stream uint32, _ int) {
			f.goAway(stream, codeNone)
			f.answer(stream)
		}},
		"reset for another reason": {calls: 3, answered: 2, most: 3, script: func(f *framed, stream uint32, n int) {
			if n == 2 {
				f.reset(stream, codeInternal)
				return
			}
			f.answer(stream)
		}},
		"closed instead of an answer": {calls: 3, answered: 2, most: 3, script: func(f *framed, stream uint32, n int) {
			if n == 2 {
				_ = f.conn.Close()
				return
			}
			f.answer(stream)
		}},
		"going away in anger": {calls: 3, answered: 2, most: 3, script: func(f *framed, stream uint32, n int) {
			if n == 2 {
				f.goAway(stream, codeEnhance)
				_ = f.conn.Close()
				return
			}
			f.answer(stream)
		}},
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut} {
			rows = append(rows, row{name + " " + method, method, c, newFrameServer(t, c.script)})
			yaml += fmt.Sprintf("  - {name: d%d, listen: $D%d, upstream: \"http://%s\", protocol: h2c, attempt_timeout: 3s, timeout: 9s, breaker: {mode: \"off\"}}\n",
				len(rows), len(rows), rows[len(rows)-1].server.addr)
		}
	}
	s := start(t, yaml)
	var all sync.WaitGroup
	for i, r := range rows {
		t.Cleanup(r.server.drop)
		all.Go(func() { s.wantCounted(t, i+1, r.name, r.method, r.refusing, r.server) })
	}
	all.Wait()
	if t.Failed() {
		return
	}
	for i, r := range rows {
		seen, _ := r.server.seen()
		s.wantMetric(t, float64(seen), "sidecar_attempts_total", "dependency", fmt.Sprintf("d%d", i+1))
		logged := 0
		for _, line := range s.logs("msg", "call", "dependency", fmt.Sprintf("d%d", i+1)) {
			var n int
			_, _ = fmt.Sscan(fmt.Sprint(line["attempts"]), &n)
			logged += n
		}
		if logged != seen {
			t.Errorf("%s: %d requests were seen, %d attempts logged", r.name, seen, logged)
		}
	}
}

// wantCounted makes the calls of one row and compares how many are answered.
func (s *sidecar) wantCounted(t *testing.T, n int, name, method string, c refusing, v *frameServer) {
	answered := 0
	for range c.calls {
		body := io.Reader(nil)
		if method == http.MethodPut {
			body = strings.NewReader("body")
		}
		switch r := s.do(t.Context(), method, fmt.Sprintf("D%d", n), "/", body); r.status {
		case http.StatusOK:
			answered++
		case http.StatusBadGateway, http.StatusGatewayTimeout: // the latter while it waits to send again
		default:
			t.Errorf("%s: got %v", name, r)
		}
	}
	want := c.answered
	if method == http.MethodPut && want == c.calls && answered == want-1 {
		want-- // a body that has been sent cannot be had again
	}
	if seen, _ := v.seen(); answered != want || seen > c.most {
		t.Errorf("%s: %d calls were answered and %d requests seen, want %d and at most %d", name, answered, seen, want, c.most)
	}
}
