//go:build unix

package http1

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// shelf is an upstream that answers everything, and keeps its connections in
// the order in which they were opened.
type shelf struct {
	nears, fars []*wire
	began       time.Time
	t           *Transport
	upstreams   sync.WaitGroup
}

func newShelf(idle time.Duration) *shelf {
	s := &shelf{began: time.Now()}
	s.t = &Transport{Dial: s.dial, IdleTimeout: idle, MaxHeaderBytes: maxHead}
	return s
}

func (s *shelf) dial(context.Context) (net.Conn, error) {
	near, far := newWire(window)
	s.nears, s.fars = append(s.nears, near), append(s.fars, far)
	s.upstreams.Go(func() {
		script{request, say(ok), request, say(ok), request, say(ok), request, say(ok)}.play(&peer{wire: far})
	})
	return near, nil
}

// closed returns how long after the beginning the i-th connection was closed; 0
// if it was not.
func (s *shelf) closed(i int) time.Duration {
	if at := s.nears[i].closedAt(); !at.IsZero() {
		return at.Sub(s.began)
	}
	return 0
}

// begin begins an exchange and returns what reads its answer to the end.
func (s *shelf) begin(t *testing.T) (finish func()) {
	t.Helper()
	res, err := s.t.RoundTrip(t.Context(), newRequest(http.MethodGet, nil), new(Exchange), &interims{})
	if err != nil {
		t.Fatal(err)
	}
	return func() { _, _ = io.Copy(io.Discard, res.Body) }
}

// at waits until so long after the beginning.
func (s *shelf) at(d time.Duration) { time.Sleep(time.Until(s.began.Add(d))) }

// over ends everything and checks that nothing waits any more.
func (s *shelf) over(t *testing.T) {
	t.Helper()
	s.t.CloseIdleConnections()
	synctest.Wait()
	for i, near := range s.nears {
		if !near.isClosed() {
			t.Errorf("connection %d is open", i)
		}
	}
	s.upstreams.Wait()
}

// looks reports whether a timer is running, which it stops.
func (t *Transport) looks() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.look.Stop()
}

// rests returns how many connections are idle.
func (t *Transport) rests() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.idle)
}

func TestIdleConnectionsAreClosedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(10 * time.Second)
		one, other := s.begin(t), s.begin(t)
		s.at(time.Second)
		one()
		s.at(1500 * tick)
		other()
		s.at(time.Minute)
		if s.closed(0) != 11*time.Second || s.closed(1) != 12*time.Second {
			t.Errorf("closed after %v, %v", s.closed(0), s.closed(1))
		}
		if s.t.looks() {
			t.Error("there is nothing to look at, but a timer")
		}
		s.begin(t)()
		s.at(2 * time.Minute)
		if s.closed(2) == 0 {
			t.Error("the timer was not started again")
		}
		s.over(t)
	})
}

func TestConnectionsClosedByTheUpstreamDoNotStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(time.Minute)
		end := []func(){s.begin(t), s.begin(t), s.begin(t)}
		for _, finish := range end {
			finish()
		}
		began := time.Since(s.began)
		s.at(began + 3200*tick)
		_ = s.fars[0].Close()
		s.fars[1].resetBoth()
		s.at(began + 9*time.Second)
		if s.closed(0) != began+4*time.Second || s.closed(1) != began+4*time.Second || s.closed(2) != 0 {
			t.Errorf("closed after %v, %v", s.closed(0), s.closed(1))
		}
		s.over(t)
	})
}

// A dead connection is not used, though nobody has looked at it since it died,
// nor one that was idle for too long; one that is wanted in time is.
func TestIdleConnectionsThatAreUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(1500 * tick)
		s.begin(t)()
		time.Sleep(999 * tick)
		s.begin(t)()
		if len(s.nears) != 1 {
			t.Fatal("a connection was not used again")
		}
		time.Sleep(999 * tick)
		_ = s.fars[0].Close()
		s.begin(t)()
		if len(s.nears) != 2 || !s.nears[0].isClosed() {
			t.Fatal("a dead connection was used, or left open")
		}
		time.Sleep(1500 * tick)
		s.begin(t)()
		if len(s.nears) != 3 || !s.nears[1].isClosed() {
			t.Fatal("a connection was used after its time, or left open")
		}
		s.over(t)
	})
}

// The connection that was used last is used next, so that those that are not
// needed any more become old.
func TestTheLastIsTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(10 * time.Second)
		one, other := s.begin(t), s.begin(t)
		one()
		other()
		for range 3 {
			s.begin(t)()
			time.Sleep(4 * time.Second)
		}
		if len(s.nears) != 2 || s.closed(0) == 0 || s.closed(1) != 0 {
			t.Errorf("closed after %v, %v", s.closed(0), s.closed(1))
		}
		s.over(t)
	})
}

func TestCloseIdleConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(time.Minute)
		s.t.CloseIdleConnections()
		idle, busy := s.begin(t), s.begin(t)
		idle()
		s.t.CloseIdleConnections()
		if !s.nears[0].isClosed() || s.nears[1].isClosed() {
			t.Error("not the idle ones were closed")
		}
		if s.t.looks() {
			t.Error("there is nothing to look at, but a timer")
		}
		busy()
		if !s.nears[1].isClosed() {
			t.Error("a connection stays when its exchange has ended")
		}
		busy = s.begin(t)
		s.t.CloseIdleConnections()
		next := s.begin(t)
		busy()
		next()
		if s.nears[2].isClosed() || s.nears[3].isClosed() {
			t.Error("a connection was closed though another exchange had begun")
		}
		s.over(t)
	})
}
