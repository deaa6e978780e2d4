package http1

import (
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

// grace is how long the end of an answer waits for the end of its request body,
// so that the connection can be used again, and how long an answer is waited
// for once its request could not be sent to its end.
const grace = 50 * time.Millisecond

// exchange sends a request and reads the answer's head, and the interim
// responses before it.
func (c *conn) exchange(req *http.Request, h InterimHandler, limit int64) (*http.Response, error) {
	c.written.Store(0)
	c.answered.Store(false)
	if req.Body == nil || req.Body == http.NoBody {
		if err := c.send(req); err != nil {
			if !c.lastWords() {
				return nil, err
			}
			c.sending = make(chan error, 1)
			c.sending <- err
		}
	} else {
		c.sending = make(chan error, 1)
		go c.sendBeside(req, c.sending)
	}
	res, err := c.receive(req, h, limit)
	if c.sending != nil && errors.Is(err, net.ErrClosed) {
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
	err := req.Write(c.out)
	if err == nil {
		err = c.out.Flush()
	}
	if c.broken != nil {
		return c.broken
	}
	return err
}

// sendBeside sends a request while its answer is waited for. A body that cannot
// be read ends the exchange.
func (c *conn) sendBeside(req *http.Request, ended chan<- error) {
	src := &source{ReadCloser: req.Body}
	req = req.WithContext(req.Context())
	req.Body = src
	err := c.send(req)
	if src.err != nil {
		err = src.err
	}
	ended <- err
	if err != nil && !c.lastWords() {
		_ = c.Close()
	}
}

// lastWords leaves a moment for what the upstream has answered before it
// stopped reading, and reports whether it can have: something was written, and
// then the connection took no more.
func (c *conn) lastWords() bool {
	if c.broken == nil || c.written.Load() == 0 {
		return false
	}
	time.AfterFunc(grace, func() {
		if !c.answered.Load() {
			_ = c.Close()
		}
	})
	return true
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

// source is a request body that remembers why it could not be read: the error
// of [http.Request.Write] cannot be looked into.
type source struct {
	io.ReadCloser
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}
