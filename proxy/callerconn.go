package proxy

import (
	"bytes"
	"net"
	"net/http"
)

const (
	// readAhead is how much net/http may have read beyond a request's head by
	// the time its handler begins.
	readAhead = 4 << 10
	// longestHead is how long a head may be to be looked through.
	longestHead = 2 << 10
)

// Listener returns l with connections that remember what was read last. A
// request with both Content-Length and Transfer-Encoding has two ends, and
// whoever takes the other one for true reads a request that nobody sent (RFC
// 9112 §6.3). net/http drops the length and keeps no trace of it.
func Listener(l net.Listener) net.Listener { return callerListener{l} }

type callerListener struct{ net.Listener }

// Accept implements [net.Listener].
func (l callerListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if tcp, ok := conn.(*net.TCPConn); ok {
		return &callerConn{TCPConn: tcp}, err
	}
	return conn, err
}

// callerConn is a caller's connection. What was read last can be asked for
// while nobody reads.
type callerConn struct {
	*net.TCPConn
	n      int // of recent
	recent [readAhead + 2*longestHead]byte
}

// Read remembers.
func (c *callerConn) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	last := p[max(0, n-readAhead-longestHead):n]
	if len(last) < n {
		c.n = 0 // what was read before does not join on
	}
	if c.n+len(last) > len(c.recent) {
		keep := readAhead + longestHead - len(last)
		copy(c.recent[:], c.recent[c.n-keep:c.n])
		c.n = keep
	}
	c.n += copy(c.recent[c.n:], last)
	return n, err
}

// framing looks for a second length of a request whose body is chunked.
// conflict is true when its head has one. certain is false when it may have one
// that cannot be told from something else: then the connection must not be
// used again. Only the handler may ask, before it reads the body.
func (c *callerConn) framing(r *http.Request) (conflict, certain bool) {
	seen := bytes.ToLower(c.recent[:c.n])
	line := bytes.ToLower([]byte(r.Method + " " + r.RequestURI + " " + r.Proto))
	// The body may repeat the line, so that this finds the wrong head.
	begin := bytes.LastIndex(seen, line)
	if begin < 0 {
		return false, false
	}
	for field := range bytes.Lines(seen[begin:]) {
		if len(bytes.TrimRight(field, "\r\n")) == 0 {
			break
		}
		if bytes.HasPrefix(field, []byte("content-length:")) {
			return true, true
		}
	}
	return false, !bytes.Contains(seen, []byte("content-length"))
}

// framedTwice reports whether the request has two lengths that may differ. Its
// connection, and one of which that cannot be said for certain, is closed
// after the answer.
func (c *call) framedTwice() bool {
	conn, ok := c.r.Context().Value(connKey{}).(*callerConn)
	if !ok || len(c.r.TransferEncoding) == 0 {
		return false
	}
	conflict, certain := conn.framing(c.r)
	if conflict || !certain {
		c.w.Header().Set("Connection", "close")
	}
	return conflict
}
