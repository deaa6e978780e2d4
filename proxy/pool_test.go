package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// nets is what lies behind a dialer: each connection leads to the address that
// the name stands for at the time.
type nets struct {
	mu    sync.Mutex
	stand string // the name's present address
	dials []string
	conns []net.Conn // the far ends
}

// dial connects to a server that answers with its address. A stream is begun
// on /stream, and goes on until the connection ends.
func (n *nets) dial(_ context.Context, _, _ string) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	near, far := net.Pipe()
	n.dials, n.conns = append(n.dials, n.stand), append(n.conns, far)
	go talk(far, n.stand)
	return near, nil
}

func talk(conn net.Conn, name string) {
	defer func() { _ = conn.Close() }()
	in := bufio.NewReader(conn)
	for {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		if req.URL.Opaque == "/stream" || req.URL.Path == "/stream" {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
			for range 10 {
				time.Sleep(20 * time.Second)
				if _, err := io.WriteString(conn, name+" "); err != nil {
					return
				}
			}
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n"+name)
	}
}

// move makes the name stand for another address.
func (n *nets) move(to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stand = to
}

// count returns how many connections were made.
func (n *nets) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.dials)
}

// overNets puts the real pool on nets.
func (r *rig) overNets() *nets {
	n := &nets{stand: "A"}
	p := newPool(r.d.current.Load().settings)
	p.dialer.dial = n.dial
	r.d.current.Load().pool = p
	r.up.unseen = 0
	return n
}

// wantFrom makes a call and wants the answer of one address.
func (r *rig) wantFrom(address string) {
	r.Helper()
	r.call(caller{}).want(r.T, 200, address, 0)
	r.up.unseen-- // it was no business of the scripted upstream
}

// I7: a name that moves takes the traffic along within connectionAge, while
// the old address still answers; what is under way there goes on to its end.
func TestNameMoves(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		n := r.overNets()
		began := time.Now()
		stream := r.start(caller{target: "/stream"})
		r.up.unseen--
		synctest.Wait()
		r.wantFrom("A")
		n.move("B")
		for time.Since(began) < connectionAge {
			r.wantFrom("A")
			time.Sleep(5 * time.Second)
		}
		for range 3 {
			r.wantFrom("B")
		}
		// The old idle connection is closed, the stream's is not.
		synctest.Wait()
		if n.count() != 3 {
			r.Errorf("%d connections were made, want 3: for the stream, for calls, and for calls again", n.count())
		}
		if _, err := n.conns[1].Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
			r.Errorf("the old idle connection is open: %v", err)
		}
		stream.wait()
		if stream.body != "A A A A A A A A A A " || stream.took != 200*time.Second {
			r.Errorf("the stream brought %q in %v", stream.body, stream.took)
		}
		// The age counts from the renewal, not from the beginning.
		r.wantFrom("B")
	})
}

// An address does not move, so its connections are kept.
func TestAddressDoesNotMove(t *testing.T) {
	for _, upstream := range []string{"http://192.0.2.1", "http://[2001:db8::1]:81"} {
		bubble(t, upstreamAt(upstream), func(r *rig) {
			n := r.overNets()
			for range 4 * connectionAge / (40 * time.Second) {
				r.wantFrom("A")
				time.Sleep(40 * time.Second)
			}
			if n.count() != 1 {
				r.Errorf("%d connections to %s, want 1", n.count(), upstream)
			}
		})
	}
}

// An idle connection is not kept for longer than servers keep theirs.
func TestIdleConnections(t *testing.T) {
	bubble(t, upstreamAt("http://192.0.2.1"), func(r *rig) {
		n := r.overNets()
		for wait, conns := range map[time.Duration]int{idleConnTimeout - 1: 1, idleConnTimeout + 1: 2} {
			before := n.count()
			r.wantFrom("A")
			time.Sleep(wait)
			r.wantFrom("A")
			if made := n.count() - before; made != conns {
				r.Errorf("after %v %d connections were made, want %d", wait, made, conns)
			}
			r.d.current.Load().pool.retire()
			time.Sleep(time.Hour)
		}
	})
}

// Calls that find the connections too old at the same moment share new ones.
func TestRenewalIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(usual())
		old := p.present()
		time.Sleep(connectionAge)
		found := make(chan *transports, 20)
		for range cap(found) {
			go func() { found <- p.present() }()
		}
		fresh := <-found
		for range cap(found) - 1 {
			if other := <-found; other != fresh {
				t.Fatal("two renewals at once")
			}
		}
		if fresh == old || p.present() != fresh {
			t.Error("the connections were not renewed, or again")
		}
		time.Sleep(connectionAge - 1)
		if p.present() != fresh {
			t.Error("renewed too early")
		}
		p.retire()
	})
}

// Which transport a request takes.
func TestPick(t *testing.T) {
	for _, c := range []struct {
		upstream string
		protocol Protocol
		caller   int // HTTP/1 or 2
		upgrade  bool
		known1   bool // the last handshake agreed on HTTP/1.1
		want     string
	}{
		{"http://x", ProtocolAuto, 1, false, false, "http1"},
		{"http://x", ProtocolAuto, 2, false, false, "http2"},
		{"http://x", ProtocolHTTP1, 2, false, false, "http1"},
		{"http://x", ProtocolH2C, 1, false, false, "http2"},
		{"http://x", ProtocolH2C, 1, true, false, "http1"},
		{"https://x", ProtocolAuto, 1, false, false, "agreed, maybe 2"},
		{"https://x", ProtocolAuto, 2, false, true, "agreed, 1"},
		{"https://x", ProtocolAuto, 1, true, false, "http1"},
		{"https://x", ProtocolH2, 1, false, false, "http2"},
		{"https://x", ProtocolHTTP1, 1, false, false, "http1"},
	} {
		s := usual()
		upstreamAt(c.upstream)(s)
		s.Protocol = c.protocol
		p := newPool(s)
		p.dialer.agreedHTTP1.Store(c.known1)
		r := (&caller{}).request(t)
		r.ProtoMajor = c.caller
		if c.upgrade {
			r.Header.Set("Upgrade", "echo")
		}
		now := p.present()
		tr, http2 := p.pick(now, r.WithContext(context.WithValue(r.Context(), callKey{}, &call{r: r})))
		got := map[*http.Transport]string{now.http1: "http1", now.http2: "http2", now.agreed: "agreed"}[tr]
		if got == "agreed" {
			got += map[bool]string{true: ", maybe 2", false: ", 1"}[http2]
		} else if http2 != (got == "http2") {
			t.Errorf("%+v: %s, http2=%v", c, got, http2)
		}
		if got != c.want {
			t.Errorf("%+v: took %s", c, got)
		}
	}
}

// How an HTTP/2 upstream ends what it does not finish.
func TestClassifyHTTP2(t *testing.T) {
	for text, want := range map[string]Reason{
		"stream error: stream ID 3; INTERNAL_ERROR; received from peer":                                     ReasonReset,
		"http2: server sent GOAWAY and closed the connection; LastStreamID=1, ErrCode=NO_ERROR, debug=\"\"": ReasonReset,
		"http2: client connection lost": ReasonReset,
		"http2: Transport: cannot retry err [stream error: stream ID 3; REFUSED_STREAM; received from peer] after body": ReasonReset,
		"stream error: stream ID 3; PROTOCOL_ERROR": ReasonProtocol,
		"http2: frame too large":                    ReasonProtocol,
	} {
		if got := classify(errors.New(text)); got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
}
