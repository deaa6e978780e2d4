//go:build unix

package http1

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// storm is many exchanges over one transport, interrupted and left at random,
// while its idle connections are closed at random.
type storm struct {
	*testing.T
	transport *Transport
	ending    sync.WaitGroup

	mu    sync.Mutex // guards everything below
	conns []*owned

	whole, cut, reused atomic.Int64
}

// owned is a connection that notices when two use it at once.
type owned struct {
	*wire
	reading, writing, shared atomic.Bool
}

func (o *owned) Read(p []byte) (int, error) {
	o.claim(&o.reading)
	defer o.reading.Store(false)
	return o.wire.Read(p)
}

func (o *owned) Write(p []byte) (int, error) {
	o.claim(&o.writing)
	defer o.writing.Store(false)
	return o.wire.Write(p)
}

func (o *owned) claim(use *atomic.Bool) {
	if use.Swap(true) {
		o.shared.Store(true)
	}
}

// chance waits for up to n milliseconds.
func chance(r *rand.Rand, n int) { time.Sleep(time.Duration(r.IntN(n*1000+1)) * time.Microsecond) }

func (s *storm) dial(ctx context.Context) (net.Conn, error) {
	near, far := newWire(1 << 10)
	o := &owned{wire: near}
	s.mu.Lock()
	s.conns = append(s.conns, o)
	r := rand.New(rand.NewPCG(uint64(len(s.conns)), 1))
	s.mu.Unlock()
	wait := time.After(time.Duration(r.IntN(5000)) * time.Microsecond)
	s.ending.Go(func() { serve(far, r) })
	select {
	case <-wait:
		return o, nil
	case <-ctx.Done():
		_ = o.Close()
		return nil, ctx.Err()
	}
}

// serve answers requests with the name they give, and with their bodies.
func serve(c *wire, r *rand.Rand) {
	defer func() { _ = c.Close() }()
	in := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		chance(r, 3)
		if r.IntN(4) == 0 {
			_, _ = io.WriteString(c, "HTTP/1.1 103 Early Hints\r\n\r\n")
			chance(r, 3)
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		_, _ = fmt.Fprintf(c, h11+te+"X-Name: %s\r\n\r\n", req.Header.Get("X-Name"))
		for len(body) > 0 {
			n := min(len(body), 1+r.IntN(800))
			chance(r, 2)
			_, _ = fmt.Fprintf(c, "%x\r\n%s\r\n", n, body[:n])
			body = body[n:]
		}
		_, _ = io.WriteString(c, "0\r\n\r\n")
	}
}

// exchange makes one exchange. Unless it is interrupted it must bring the
// answer to its own request; else it must end there and then.
func (s *storm) exchange(r *rand.Rand, name string) {
	req := newRequest(http.MethodGet, nil)
	var want string
	if r.IntN(2) == 0 {
		want = strings.Repeat(name+" ", r.IntN(300))
		req = chunked(http.MethodPost, plainly(want))()
	}
	req.Header.Set("X-Name", name)
	ctx, cancel := context.WithCancel(s.Context())
	e := new(Exchange)
	var interrupted atomic.Pointer[time.Time]
	cut := time.AfterFunc(time.Duration(r.IntN(12_000))*time.Microsecond, func() {
		now := time.Now()
		interrupted.Store(&now)
		cancel()
		e.Interrupt()
	})
	if r.IntN(2) == 0 {
		cut.Stop()
	}
	got, answered, err := s.read(ctx, r, req, e)
	if at := interrupted.Load(); err != nil && (at == nil || !time.Now().Equal(*at)) {
		s.Errorf("%s: %v, interrupted %v", name, err, at)
	}
	switch {
	case err != nil:
		s.cut.Add(1)
	case answered == "":
	case answered != name || got != want:
		s.Errorf("%s got the answer of %s: %q", name, answered, got)
	default:
		s.whole.Add(1)
	}
	if e.Reused() {
		s.reused.Add(1)
	}
	if r.IntN(2) == 0 {
		cut.Stop() // else the interrupt comes when the exchange is over
	}
}

// read reads an answer, and leaves a few before their end.
func (s *storm) read(ctx context.Context, r *rand.Rand, req *http.Request, e *Exchange) (body, name string, err error) {
	res, err := s.transport.RoundTrip(ctx, req, e, &interims{})
	if err != nil {
		return "", "", err
	}
	defer func() { _ = res.Body.Close() }()
	if r.IntN(8) == 0 {
		return "", "", nil
	}
	all, err := io.ReadAll(res.Body)
	return string(all), res.Header.Get("X-Name"), err
}

func TestStorm(t *testing.T) {
	for seed := range uint64(4) {
		synctest.Test(t, func(t *testing.T) {
			s := &storm{T: t}
			s.transport = &Transport{Dial: s.dial, IdleTimeout: 2 * time.Second, MaxHeaderBytes: maxHead}
			var callers sync.WaitGroup
			for caller := range uint64(16) {
				r := rand.New(rand.NewPCG(seed, caller))
				callers.Go(func() {
					for i := range 50 {
						s.exchange(r, fmt.Sprint(seed, "-", caller, "-", i))
						chance(r, 3)
					}
				})
			}
			stop := make(chan struct{})
			s.ending.Go(func() {
				r := rand.New(rand.NewPCG(seed, 99))
				for {
					chance(r, 40)
					select {
					case <-stop:
						return
					default:
						s.transport.CloseIdleConnections()
					}
				}
			})
			callers.Wait()
			close(stop)
			time.Sleep(time.Second)
			s.check()
		})
	}
}

// check ends the storm: every connection is idle or closed, and was never used
// by two at once.
func (s *storm) check() {
	open := 0
	for i, c := range s.conns {
		if !c.isClosed() {
			open++
		}
		if c.shared.Load() {
			s.Errorf("connection %d was used by two at once", i)
		}
	}
	if idle := s.transport.rests(); open != idle {
		s.Errorf("%d connections are open, %d of them idle", open, idle)
	}
	time.Sleep(4 * time.Second)
	for i, c := range s.conns {
		if !c.isClosed() {
			s.Errorf("connection %d stays", i)
		}
	}
	s.ending.Wait()
	s.Logf("%d answers, %d interrupted, %d on used connections, %d connections",
		s.whole.Load(), s.cut.Load(), s.reused.Load(), len(s.conns))
	if s.whole.Load() < 100 || s.cut.Load() < 100 || s.reused.Load() < 100 {
		s.Error("the storm was a calm")
	}
}
