package proxy

import (
	"bufio"
	"net"
	"net/http"
)

// writer returns what ReverseProxy answers on.
func (c *call) writer() http.ResponseWriter {
	if c.r.Header.Get("Upgrade") == "" {
		return c.w
	}
	return upgradeWriter{c.w}
}

// upgradeWriter gives the caller's connection away together with what the
// server has already read from it: a caller may speak before its upgrade is
// agreed to, and ReverseProxy reads from the connection alone.
type upgradeWriter struct{ http.ResponseWriter }

// Unwrap is for [http.ResponseController].
func (w upgradeWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Hijack implements [http.Hijacker].
func (w upgradeWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil || buffered.Reader.Buffered() == 0 {
		return conn, buffered, err
	}
	return &earlyConn{conn, buffered.Reader}, buffered, nil
}

// earlyConn is a connection of which a part has been read already.
type earlyConn struct {
	net.Conn
	early *bufio.Reader
}

// Read gives what was read early first.
func (c *earlyConn) Read(p []byte) (int, error) {
	if c.early.Buffered() > 0 {
		return c.early.Read(p)
	}
	return c.Conn.Read(p)
}

// CloseWrite passes a half-close on.
func (c *earlyConn) CloseWrite() error { return closeWrite(c.Conn) }

// closeWrite closes the sending half of a connection where it has one.
func closeWrite(c any) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return net.ErrClosed
}
