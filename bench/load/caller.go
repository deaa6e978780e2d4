package load

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"
)

// callTimeout bounds one call, its connection included.
const callTimeout = 15 * time.Second

// Target is what is called, and what its answer must be.
type Target struct {
	Addr    string // host and port
	Request []byte // a whole HTTP/1.1 request
	Status  int    // of the answer
	Length  int    // bytes of the answer's body; -1 = any
	Fresh   bool   // a new connection for each call
}

// Caller makes one call after another. It is not safe for concurrent use.
type Caller struct {
	target *Target
	conn   net.Conn
	in     *bufio.Reader
}

// NewCaller returns a Caller without a connection: the first call makes it.
func NewCaller(t *Target) *Caller {
	return &Caller{target: t, in: bufio.NewReaderSize(nil, 32<<10)}
}

// Close ends the connection.
func (c *Caller) Close() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

// Once makes a single call.
func (c *Caller) Once() error {
	defer c.Close()
	return c.Call()
}

// Connect makes the connection ahead of the first call.
func (c *Caller) Connect() error {
	if c.conn != nil {
		return nil
	}
	conn, err := net.DialTimeout("tcp", c.target.Addr, callTimeout)
	if err != nil {
		return err
	}
	c.conn = conn
	c.in.Reset(conn)
	return nil
}

// breakOff ends the call at hand when ctx does, unless stopped before.
func (c *Caller) breakOff(ctx context.Context) (stop func() bool) {
	if err := c.Connect(); err != nil {
		return func() bool { return true }
	}
	conn := c.conn
	return context.AfterFunc(ctx, func() { _ = conn.Close() })
}

// Call sends the request and reads the answer to its last byte. An answer
// other than the target's is an error; after any error the next call makes a
// new connection. Nothing is sent twice.
func (c *Caller) Call() error {
	kept, err := c.call()
	if err != nil || !kept || c.target.Fresh {
		c.Close()
	}
	return err
}

func (c *Caller) call() (kept bool, err error) {
	if err := c.Connect(); err != nil {
		return false, err
	}
	if err := c.conn.SetDeadline(time.Now().Add(callTimeout)); err != nil {
		return false, err
	}
	if _, err := c.conn.Write(c.target.Request); err != nil {
		return false, err
	}
	head, err := c.head()
	if err != nil {
		return false, err
	}
	length, err := c.body(head)
	if err != nil {
		return false, err
	}
	if head.status != c.target.Status {
		return head.kept, fmt.Errorf("the answer's status is %d, not %d", head.status, c.target.Status)
	}
	if want := c.target.Length; want >= 0 && length != want {
		return head.kept, fmt.Errorf("the answer's body has %d bytes, not %d", length, want)
	}
	return head.kept, nil
}

// head is what matters of a response's head.
type head struct {
	status  int
	length  int // -1 without Content-Length
	chunked bool
	kept    bool // the connection outlives the response
}

var errHead = errors.New("the answer is not an HTTP/1.1 response")

// head reads a response's head (RFC 9112 §4, §5).
func (c *Caller) head() (head, error) {
	h := head{length: -1, kept: true}
	line, err := c.line()
	if err != nil {
		return h, err
	}
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return h, errHead
	}
	if h.status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return h, errHead
	}
	for {
		line, err := c.line()
		if err != nil || len(line) == 0 {
			return h, err
		}
		name, value, found := bytes.Cut(line, []byte(":"))
		if !found {
			return h, errHead
		}
		value = bytes.TrimSpace(value)
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if h.length, err = strconv.Atoi(string(value)); err != nil {
				return h, errHead
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			h.chunked = bytes.EqualFold(value, []byte("chunked"))
		case bytes.EqualFold(name, []byte("Connection")):
			h.kept = !bytes.EqualFold(value, []byte("close"))
		}
	}
}

// line reads a line without its end. It is valid until the next read.
func (c *Caller) line() ([]byte, error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	return bytes.TrimRight(line, "\r\n"), nil
}

// body reads past a body and returns its length.
func (c *Caller) body(h head) (int, error) {
	if !h.chunked {
		if h.length < 0 {
			return 0, errHead
		}
		return c.in.Discard(h.length)
	}
	for sum := 0; ; {
		line, err := c.line()
		if err != nil {
			return sum, err
		}
		size, err := strconv.ParseUint(string(line), 16, 31)
		if err != nil {
			return sum, errHead
		}
		if _, err := c.in.Discard(int(size)); err != nil {
			return sum, err
		}
		if _, err := c.line(); err != nil {
			return sum, err
		}
		if size == 0 {
			return sum, nil
		}
		sum += int(size)
	}
}
