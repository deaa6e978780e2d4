package e2e

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"
)

// upstream is a scripted HTTP/1.1 server over raw TCP. It is safe for
// concurrent use and stops with its test.
type upstream struct {
	addr string
	ends chan struct{}
	work sync.WaitGroup

	mu       sync.Mutex // guards everything below
	handler  func(*exchange)
	listener net.Listener // nil while it refuses
	conns    map[net.Conn]bool
	accepted int
	served   []*exchange
	ended    bool
}

// newUpstream starts an upstream whose requests a handler answers, each
// connection's one after the other.
func newUpstream(t *testing.T, handler func(*exchange)) *upstream {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u := &upstream{
		addr: l.Addr().String(), ends: make(chan struct{}), handler: handler,
		listener: l, conns: map[net.Conn]bool{},
	}
	u.work.Go(func() { u.serve(l) })
	t.Cleanup(u.close)
	return u
}

// ok answers 200 with a short body.
func ok(x *exchange) { x.respond(200, "ok") }

// hang answers nothing and waits until the connection is closed.
func hang(x *exchange) { x.hang() }

// fails answers every request with a status.
func fails(status int) func(*exchange) {
	return func(x *exchange) { x.respond(status, "no") }
}

// handle changes what becomes of requests that come from now on.
func (u *upstream) handle(handler func(*exchange)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.handler = handler
}

// refuse closes the listener and every connection: a new one is refused.
func (u *upstream) refuse() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.listener != nil {
		_ = u.listener.Close()
		u.listener = nil
	}
	for c := range u.conns {
		_ = c.Close()
	}
}

// accept listens again on the same address.
func (u *upstream) accept(t *testing.T) {
	t.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	var err error
	if !poll(patience, func() bool {
		u.listener, err = net.Listen("tcp", u.addr)
		return err == nil
	}) {
		t.Fatal(err)
	}
	l := u.listener
	u.work.Go(func() { u.serve(l) })
}

// close ends the upstream with every connection and handler.
func (u *upstream) close() {
	u.mu.Lock()
	if !u.ended {
		u.ended = true
		close(u.ends)
	}
	u.mu.Unlock()
	u.refuse()
	u.work.Wait()
}

func (u *upstream) serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		u.mu.Lock()
		if u.ended || u.listener != l {
			u.mu.Unlock()
			_ = c.Close()
			return
		}
		u.conns[c] = true
		u.accepted++
		u.work.Go(func() { u.converse(c) })
		u.mu.Unlock()
	}
}

// converse reads the requests of one connection and has them answered.
func (u *upstream) converse(c net.Conn) {
	in := newInbox()
	u.work.Go(func() { in.fill(c) })
	defer func() {
		_ = c.Close()
		in.giveUp()
		u.mu.Lock()
		delete(u.conns, c)
		u.mu.Unlock()
	}()
	buffered := bufio.NewReader(in)
	for {
		req, err := http.ReadRequest(buffered)
		if err != nil {
			return
		}
		x := u.begin(req, c, in)
		x.run()
		if x.over || req.Close || in.err() != nil {
			return
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return
		}
		x.part()
	}
}

func (u *upstream) begin(req *http.Request, c net.Conn, in *inbox) *exchange {
	u.mu.Lock()
	defer u.mu.Unlock()
	x := &exchange{u: u, n: len(u.served) + 1, req: req, conn: c, in: in, start: time.Now(), handler: u.handler}
	u.served = append(u.served, x)
	return x
}

// requests returns how many requests came.
func (u *upstream) requests() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.served)
}

// running returns how many requests have not ended.
func (u *upstream) running() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := 0
	for _, x := range u.served {
		x.mu.Lock()
		if x.end.IsZero() {
			n++
		}
		x.mu.Unlock()
	}
	return n
}

// exchange returns the n-th request, counted from 1, once it has come.
func (u *upstream) exchange(t *testing.T, n int) *exchange {
	t.Helper()
	u.await(t, n)
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.served[n-1]
}

// await waits until n requests have come.
func (u *upstream) await(t *testing.T, n int) {
	t.Helper()
	if !poll(patience, func() bool { return u.requests() >= n }) {
		t.Fatalf("%d requests reached the upstream, want %d", u.requests(), n)
	}
}

// connections returns how many connections were accepted, and how many of them
// are still there.
func (u *upstream) connections() (accepted, open int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.accepted, len(u.conns)
}

// overlap is how long two exchanges must run at the same time to count as
// concurrent: one begins on a new connection the moment the other's was
// closed, and this process may hear of both in either order.
const overlap = 20 * time.Millisecond

// peak returns the largest number of exchanges that ran at the same time.
func (u *upstream) peak() int {
	type step struct {
		at time.Time
		by int
	}
	var steps []step
	u.mu.Lock()
	served := slices.Clone(u.served)
	u.mu.Unlock()
	for _, x := range served {
		from, to := x.start.Add(overlap), x.endedAt()
		if to.After(from) {
			steps = append(steps, step{from, 1}, step{to, -1})
		}
	}
	slices.SortFunc(steps, func(a, b step) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return a.by - b.by
	})
	now, most := 0, 0
	for _, s := range steps {
		now += s.by
		most = max(most, now)
	}
	return most
}

// runningAt returns how many exchanges had begun by a moment and went on for
// longer than overlap.
func (u *upstream) runningAt(moment time.Time) int {
	u.mu.Lock()
	served := slices.Clone(u.served)
	u.mu.Unlock()
	n := 0
	for _, x := range served {
		if !x.start.After(moment) && x.endedAt().After(moment.Add(overlap)) {
			n++
		}
	}
	return n
}
