package e2e

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// wire is a TCP proxy whose connections can go dead: nothing is forwarded any
// more, and neither side hears of an end.
type wire struct {
	to       string
	listener net.Listener
	work     sync.WaitGroup

	mu    sync.Mutex // guards everything below
	cut   chan struct{}
	conns []net.Conn
}

func newWire(t *testing.T, to string) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{to: to, listener: l, cut: make(chan struct{})}
	w.work.Go(w.serve)
	t.Cleanup(w.close)
	return w
}

// close ends the proxy with every connection.
func (w *wire) close() {
	_ = w.listener.Close()
	w.mu.Lock()
	for _, c := range w.conns {
		_ = c.Close()
	}
	w.mu.Unlock()
	w.work.Wait()
}

func (w *wire) serve() {
	for {
		near, err := w.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", w.to)
		if err != nil {
			_ = near.Close()
			continue
		}
		w.mu.Lock()
		w.conns = append(w.conns, near, far)
		cut := w.cut
		w.mu.Unlock()
		w.work.Go(func() { pass(far, near, cut) })
		w.work.Go(func() { pass(near, far, cut) })
	}
}

// pass copies until the connection is cut; then it swallows.
func pass(to, from net.Conn, cut chan struct{}) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		select {
		case <-cut:
			if err != nil {
				return
			}
			continue
		default:
		}
		if n > 0 {
			_, _ = to.Write(buffer[:n])
		}
		if err != nil {
			_ = to.Close()
			return
		}
	}
}

// freeze lets every connection there is go dead. New ones work.
func (w *wire) freeze() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.cut)
	w.cut = make(chan struct{})
}

// dials returns how many connections there were.
func (w *wire) dials() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.conns) / 2
}

// What happened: an HTTP/2 connection went dead without a word, and calls went
// into it for a quarter of an hour (golang/go#36026).
// Right: it is replaced within some 10 s, whether or not calls use it.
func TestSpareDeadHTTP2Connection(t *testing.T) {
	t.Parallel()
	h := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }))
	h.Config.Protocols = new(http.Protocols)
	h.Config.Protocols.SetUnencryptedHTTP2(true)
	h.Start()
	t.Cleanup(h.Close)
	used, idle := newWire(t, h.Listener.Addr().String()), newWire(t, h.Listener.Addr().String())
	s := start(t, base+`
dependencies:
  - name: used
    listen: $USED
    upstream: "http://`+used.listener.Addr().String()+`"
    protocol: h2c
    breaker: {mode: "off"}
  - name: idle
    listen: $IDLE
    upstream: "http://`+idle.listener.Addr().String()+`"
    protocol: h2c
`)
	for _, port := range []string{"USED", "IDLE"} {
		for range 3 {
			if r := s.get(port, "/"); r.status != http.StatusOK || r.body != "HTTP/2.0" {
				t.Fatalf("%s, before: %v", strings.ToLower(port), r)
			}
		}
	}
	if used.dials() != 1 || idle.dials() != 1 {
		t.Fatalf("%d and %d connections, want 1 each", used.dials(), idle.dials())
	}
	used.freeze()
	idle.freeze()
	dead := time.Now()
	lost := 0
	for r := s.get("USED", "/"); r.status != http.StatusOK; r = s.get("USED", "/") {
		if r.status != http.StatusGatewayTimeout && r.status != http.StatusBadGateway {
			t.Fatalf("on a dead connection: %v", r)
		}
		if lost++; time.Since(dead) > 2*patience {
			t.Fatalf("still dead after %s", time.Since(dead))
		}
	}
	if lost == 0 {
		t.Error("no call met the dead connection: nothing was tested")
	}
	wantWithin(t, "replacing a dead connection in use", time.Since(dead), 11*time.Second)
	time.Sleep(time.Until(dead.Add(11*time.Second + slack)))
	if r := s.get("IDLE", "/"); r.status != http.StatusOK {
		t.Errorf("11 s after an idle connection died: %v", r)
	}
	used.close()
	idle.close()
}
