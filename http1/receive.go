package http1

import (
	"bufio"
	"bytes"
	"io"
	"math"
	"net/http"
	"net/textproto"
	"strings"
)

// receive reads an answer's head, and the interim responses before it.
func (c *conn) receive(req *http.Request, h InterimHandler, limit int64) (*http.Response, error) {
	for {
		c.left = limit
		res, err := c.readHead(req)
		if err != nil {
			return nil, err
		}
		if res.StatusCode > 199 || res.StatusCode < 100 || res.StatusCode == http.StatusSwitchingProtocols {
			c.left = math.MaxInt64
			c.answered.Store(true)
			return res, nil
		}
		if err := h.Interim(res.StatusCode, res.Header); err != nil {
			return nil, err
		}
	}
}

// readHead reads a head. Where it says that the connection will be closed,
// net/http drops the Connection field, and so whatever else that says. The
// fields it names are those of this connection (RFC 9110 §7.6.1) and are
// dropped with it.
func (c *conn) readHead(req *http.Request) (*http.Response, error) {
	head, err := c.firstBytes()
	if err != nil {
		return nil, err
	}
	res, err := http.ReadResponse(c.in, req)
	if c.heading {
		head, c.head, c.heading = c.head, nil, false
	}
	if err != nil {
		return nil, err
	}
	if res.Close && res.Header["Connection"] == nil {
		dropNamed(res.Header, head)
	}
	return res, nil
}

// firstBytes waits for a head and returns it where it lies, in the reader's
// buffer; it lies there until more is read. A head that has not come as a whole
// is kept aside as it comes.
func (c *conn) firstBytes() ([]byte, error) {
	if _, err := c.in.Peek(1); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	head, _ := c.in.Peek(c.in.Buffered())
	if !bytes.Contains(head, []byte("\n\r\n")) && !bytes.Contains(head, []byte("\n\n")) {
		c.head, c.heading = bytes.Clone(head), true
	}
	return head, nil
}

// dropNamed removes the fields that a head's Connection field names, but for
// the length of its body, which is for everyone to know.
func dropNamed(h http.Header, head []byte) {
	lines := textproto.NewReader(bufio.NewReader(bytes.NewReader(head)))
	_, _ = lines.ReadLine()
	raw, _ := lines.ReadMIMEHeader() // It has been read before, without an error.
	for _, line := range raw["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			if name = textproto.TrimString(name); !strings.EqualFold(name, "Content-Length") {
				h.Del(name)
			}
		}
	}
}
