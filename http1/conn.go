package http1

import (
	"bufio"
	"errors"
	"math"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

var errHeaderTooLong = errors.New("http1: the answer's header is longer than the limit")

// grace is how long the end of an answer waits for the end of its request body,
// so that the connection can be used again, and how long an answer is waited
// for once its request body could not be sent.
const grace = 50 * time.Millisecond

// conn is a connection to the upstream. One exchange at a time owns it: its
// goroutine, and one beside it that sends the request body, if there is one.
type conn struct {
	net.Conn
	probe *probe
	since time.Time // idle since

	out     *bufio.Writer
	written atomic.Int64 // bytes of the present request
	broken  bool         // a write failed; belongs to whoever sends
	sending chan error   // how the sending of the present request body ended; nil without one

	in    *bufio.Reader
	left  int64 // bytes that may still be read before the present head ends
	ended bool  // a read failed: it will not be used again
}

func newConn(n net.Conn) *conn {
	c := &conn{Conn: n, probe: newProbe(n)}
	c.in, c.out = bufio.NewReader(c), bufio.NewWriter(c)
	return c
}

// quiet reports whether the idle connection seems alive: nothing has come on
// it, neither its end nor bytes that nobody asked for.
func (c *conn) quiet() bool { return c.probe.quiet() }

// exchange sends a request and reads the answer's head, and the interim
// responses before it.
func (c *conn) exchange(req *http.Request, h InterimHandler, limit int64) (*http.Response, error) {
	c.written.Store(0)
	if req.Body == nil || req.Body == http.NoBody {
		if err := c.send(req); err != nil {
			return nil, err
		}
		return c.receive(req, h, limit)
	}
	c.sending = make(chan error, 1)
	go c.sendBeside(req, c.sending)
	res, err := c.receive(req, h, limit)
	if errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) {
		select {
		case why := <-c.sending: // Whoever sent has made an end of it.
			if why != nil {
				err = why
			}
		default:
		}
	}
	return res, err
}

// send writes a request.
func (c *conn) send(req *http.Request) error {
	if err := req.Write(c.out); err != nil {
		return err
	}
	return c.out.Flush()
}

// sendBeside sends a request while its answer is waited for. A body that cannot
// be read ends the exchange. A connection that no longer takes the body leaves
// a moment for what the upstream has answered before it stopped reading.
func (c *conn) sendBeside(req *http.Request, ended chan<- error) {
	err := c.send(req)
	ended <- err
	switch {
	case err == nil:
	case c.broken && c.written.Load() > 0:
		_ = c.SetReadDeadline(time.Now().Add(grace))
	default:
		_ = c.Close()
	}
}

// sent reports whether the whole request has been sent.
func (c *conn) sent() bool {
	if c.sending == nil {
		return true
	}
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case err := <-c.sending:
		c.sending = nil
		return err == nil
	case <-late.C:
		return false
	}
}

// receive reads an answer's head, and the interim responses before it.
func (c *conn) receive(req *http.Request, h InterimHandler, limit int64) (*http.Response, error) {
	for {
		c.left = limit
		res, err := http.ReadResponse(c.in, req)
		if err != nil {
			return nil, err
		}
		if res.StatusCode > 199 || res.StatusCode < 100 || res.StatusCode == http.StatusSwitchingProtocols {
			c.left = math.MaxInt64
			return res, nil
		}
		if err := h.Interim(res.StatusCode, res.Header); err != nil {
			return nil, err
		}
	}
}

// Read keeps the bound of a head, and notes the end.
func (c *conn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errHeaderTooLong
	}
	if int64(len(p)) > c.left {
		p = p[:c.left]
	}
	n, err := c.Conn.Read(p)
	c.left -= int64(n)
	if err != nil {
		c.ended = true
	}
	return n, err
}

// Write counts what the operating system took.
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.written.Add(int64(n))
	if err != nil {
		c.broken = true
	}
	return n, err
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}
