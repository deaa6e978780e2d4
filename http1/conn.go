package http1

import (
	"bufio"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

var errHeaderTooLong = errors.New("http1: the answer's header is longer than the limit; let the upstream send a shorter one")

// conn is a connection to the upstream. One exchange at a time owns it: its
// goroutine, and one beside it that sends the request body, if there is one.
type conn struct {
	net.Conn
	probe *probe
	since time.Time // idle since

	out     *bufio.Writer
	writing sync.Mutex   // held during a write
	written atomic.Int64 // bytes of the present request
	broken  error        // why a write failed; belongs to whoever sends
	sending chan error   // how the sending of the present request ended; nil when that is known to be well

	in       *bufio.Reader
	left     int64       // bytes that may still be read before the present head ends
	head     []byte      // what has been read of the present head, while heading
	heading  bool        // head is being kept
	answered atomic.Bool // the present request's answer has begun
	ended    bool        // a read failed: it will not be used again
}

func newConn(n net.Conn) *conn {
	c := &conn{Conn: n, probe: newProbe(n)}
	c.in, c.out = bufio.NewReader(c), bufio.NewWriter(c)
	return c
}

// quiet reports whether the idle connection seems alive: nothing has come on
// it, neither its end nor bytes that nobody asked for.
func (c *conn) quiet() bool { return c.probe.quiet() }

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
	if c.heading {
		c.head = append(c.head, p[:n]...)
	}
	if err != nil {
		c.ended = true
	}
	return n, err
}

// Write counts what the operating system took.
func (c *conn) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	n, err := c.Conn.Write(p)
	c.written.Add(int64(n))
	if err != nil {
		c.broken = err
	}
	return n, err
}

// copies are the buffers that request bodies of known length go through.
var copies = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// ReadFrom sends a request body piece by piece as it comes, where
// [bufio.Writer] by itself would wait until its buffer is full.
func (c *conn) ReadFrom(r io.Reader) (int64, error) {
	buffer := copies.Get().(*[32 << 10]byte)
	defer copies.Put(buffer)
	return io.CopyBuffer(struct{ io.Writer }{c}, r, buffer[:])
}

// total returns how many bytes of the request were written on a connection
// that has been closed: a write that was under way comes to its end first, and
// none comes after it.
func (c *conn) total() int64 {
	c.writing.Lock()
	defer c.writing.Unlock()
	return c.written.Load()
}
