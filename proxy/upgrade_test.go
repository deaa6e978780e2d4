package proxy

import (
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// halfCloser is a connection that tells when its sending half is closed.
type halfCloser struct {
	net.Conn
	closed chan struct{}
}

func (c *halfCloser) CloseWrite() error {
	close(c.closed)
	return nil
}

// That a caller has said all is passed on, and the upstream may go on.
func TestUpgradeHalfClose(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		near, far := net.Pipe()
		half := &halfCloser{near, make(chan struct{})}
		r.up.will(reply{status: 101, header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {"echo"}}, switches: half})
		got := r.start(caller{header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {"echo"}}})
		synctest.Wait()
		_ = got.app.Close()
		<-half.closed
		time.Sleep(time.Second)
		if n := r.d.InFlight(); n != 1 {
			r.Errorf("%d in flight, want 1: the upstream has not ended", n)
		}
		_ = far.Close()
		if got.wait(); got.took != time.Second {
			r.Errorf("took %v, want 1s", got.took)
		}
	})
}

// An upgraded connection leaves the deadline too, carries both ways, keeps its
// permit, and ends when either side is silent or gone.
func TestUpgrade(t *testing.T) {
	ask := caller{header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {"echo"}}}
	agree := http.Header{"Connection": {"Upgrade"}, "Upgrade": {"echo"}}
	for _, c := range []struct {
		name    string
		end     func(app *answer, far net.Conn)
		took    time.Duration
		outcome Outcome
	}{
		{"caller leaves", func(a *answer, _ net.Conn) { _ = a.app.Close() }, 10 * time.Second, OutcomeOK},
		{"upstream leaves", func(_ *answer, far net.Conn) { _ = far.Close() }, 10 * time.Second, OutcomeOK},
		{"silence", func(*answer, net.Conn) {}, 70 * time.Second, OutcomeFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, nil, func(r *rig) {
				near, far := net.Pipe()
				r.up.will(reply{status: 101, header: agree, switches: near})
				got := r.start(ask)
				go func() { _, _ = io.Copy(far, far) }()
				time.Sleep(10 * time.Second)
				if n := r.d.Snapshot().Bulkhead.InUse; n != 1 {
					r.Errorf("%d permits in use, want 1", n)
				}
				r.wantEvidence(success)
				_, _ = got.app.Write([]byte("hello"))
				synctest.Wait()
				c.end(got, far)
				got.wait()
				if got.took != c.took {
					r.Errorf("took %v, want %v", got.took, c.took)
				}
				if want := "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nhello"; got.body != want {
					r.Errorf("caller got %q, want %q", got.body, want)
				}
				if h := r.lastCall(); h.Status != 101 || h.Outcome != c.outcome || !h.Stream {
					r.Errorf("heard %+v, want a stream, 101, %s", h, c.outcome)
				}
				if _, err := far.Write([]byte("x")); err == nil {
					r.Error("the upstream's connection is still open")
				}
			})
		})
	}
}

// A word in either direction breaks the silence.
func TestUpgradeOneWay(t *testing.T) {
	for _, says := range []func(*answer, net.Conn) net.Conn{
		func(a *answer, _ net.Conn) net.Conn { return a.app },
		func(_ *answer, far net.Conn) net.Conn { return far },
	} {
		bubble(t, nil, func(r *rig) {
			near, far := net.Pipe()
			r.up.will(reply{status: 101, header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {"echo"}}, switches: near})
			got := r.start(caller{header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {"echo"}}})
			go func() { _, _ = io.Copy(io.Discard, far) }()
			for range 3 {
				time.Sleep(50 * time.Second)
				_, _ = says(got, far).Write([]byte("x"))
			}
			if got.wait(); got.took != 210*time.Second {
				r.Errorf("took %v, want 3m30s", got.took)
			}
		})
	}
}

// A caller that is gone when the upgrade has come is no failed request.
func TestUpgradeForNobody(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		near, _ := net.Pipe()
		r.up.will(reply{status: 101, header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {"echo"}}, switches: near})
		got := r.start(caller{header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {"echo"}}, hears: forever})
		time.Sleep(time.Second)
		_ = got.app.Close()
		got.wait()
		if c := r.lastCall(); c.Outcome != OutcomeCanceled || c.Status != 101 {
			r.Errorf("heard %s %q %d, want canceled, 101", c.Outcome, c.Reason, c.Status)
		}
	})
}

// An answer that switches protocols without being asked is none.
func TestUpgradeNotAskedFor(t *testing.T) {
	for _, ask := range []http.Header{nil, {"Connection": {"Upgrade"}, "Upgrade": {"other"}}, {"Upgrade": {"echo"}}} {
		bubble(t, nil, func(r *rig) {
			near, _ := net.Pipe()
			r.up.will(reply{status: 101, header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {"echo"}}, switches: near})
			r.call(caller{header: ask}).want(t, 502, problemBody(502, "What the dependency sent is not a valid HTTP response.", ReasonProtocol), 0)
			r.wantEvidence(failure)
			if _, err := near.Write([]byte("x")); err == nil {
				r.Error("the upstream's connection is still open")
			}
		})
	}
}

// A refused upgrade is an answer like any other.
func TestUpgradeRefused(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		r.up.will(reply{status: 403, body: text("no")})
		r.call(caller{header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {"echo"}}}).want(t, 403, "no", 0)
		if h := r.up.request(0).header; h.Get("Upgrade") != "echo" || h.Get("Connection") != "Upgrade" {
			r.Errorf("upstream saw %v, want the upgrade", h)
		}
	})
}
