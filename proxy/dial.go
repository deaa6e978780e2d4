package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"math"
	"net"
	"net/url"
	"sync/atomic"
)

// dialer opens connections, each within the connect_timeout of the call that
// asked for it. Its errors are [dialError]s.
type dialer struct {
	certificates *Certificates
	dial         func(ctx context.Context, network, address string) (net.Conn, error)
	agreedHTTP1  atomic.Bool // where there was a choice, the last handshake did not agree on HTTP/2
}

func newDialer(c *Certificates) *dialer {
	return &dialer{certificates: c, dial: new(net.Dialer).DialContext}
}

// plain connects.
func (d *dialer) plain(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := connectContext(ctx)
	defer cancel()
	return d.connect(ctx, network, address)
}

// direct returns a function that connects to an upstream for exchanges that
// count by themselves.
func (d *dialer) direct(u *url.URL) func(ctx context.Context) (net.Conn, error) {
	address := u.Host
	if u.Port() == "" {
		address = net.JoinHostPort(u.Hostname(), "80")
	}
	return func(ctx context.Context) (net.Conn, error) {
		ctx, cancel := connectContext(ctx)
		defer cancel()
		return d.uncounted(ctx, "tcp", address)
	}
}

// secure returns a function that connects and shakes hands, both within one
// connect_timeout, offering these protocols (RFC 7301).
func (d *dialer) secure(protocols ...string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := connectContext(ctx)
		defer cancel()
		conn, err := d.connect(ctx, network, address)
		if err != nil {
			return nil, err
		}
		secure := tls.Client(conn, d.config(address, protocols))
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			return nil, &dialError{&tlsError{err}}
		}
		if len(protocols) > 1 {
			d.agreedHTTP1.Store(secure.ConnectionState().NegotiatedProtocol != "h2")
		}
		return secure, nil
	}
}

// config completes the configuration for one handshake.
func (d *dialer) config(address string, protocols []string) *tls.Config {
	config := d.certificates.current().Clone()
	config.NextProtos = protocols
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(address)
	}
	return config
}

// connectContext bounds a connect by connect_timeout, and by the attempt that
// asked for it where that is given up: net/http's Transport goes on, and a dead
// address would so hold more than its compartment. An attempt that has found
// another connection leaves this one to the pool.
func connectContext(ctx context.Context) (context.Context, context.CancelFunc) {
	c := callOf(ctx)
	timeout := c.policy.ConnectTimeout
	if timeout <= 0 {
		timeout = math.MaxInt64
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	attempt := c.attemptContext()
	stop := context.AfterFunc(attempt, func() {
		if !errors.Is(context.Cause(attempt), errCallEnded) {
			cancel()
		}
	})
	return ctx, func() {
		stop()
		cancel()
	}
}

func (d *dialer) connect(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := d.uncounted(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &countedConn{Conn: conn}, nil
}

func (d *dialer) uncounted(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := d.dial(ctx, network, address)
	if err != nil {
		return nil, &dialError{err}
	}
	return conn, nil
}

// tlsError marks an error of the TLS handshake.
type tlsError struct{ err error }

func (e *tlsError) Error() string { return e.err.Error() }
func (e *tlsError) Unwrap() error { return e.err }

// countedConn counts the bytes written, so that "nothing was sent" can be
// proved, and knows whether its end has been read.
type countedConn struct {
	net.Conn
	written atomic.Int64
	ended   atomic.Bool
}

// Read notes the end.
func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		c.ended.Store(true)
	}
	return n, err
}

// Write counts what the operating system took.
func (c *countedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.written.Add(int64(n))
	return n, err
}

// CloseWrite passes a half-close on, which upgraded connections need.
func (c *countedConn) CloseWrite() error { return closeWrite(c.Conn) }

// writtenOn returns how many bytes have been written on a connection, and
// whether that is known.
func writtenOn(c net.Conn) (int64, bool) {
	if counted, ok := beneath(c).(*countedConn); ok {
		return counted.written.Load(), true
	}
	return 0, false
}

// endedOn reports whether the end of a connection has been read.
func endedOn(c net.Conn) bool {
	counted, ok := beneath(c).(*countedConn)
	return ok && counted.ended.Load()
}

// beneath returns the connection that TLS runs on, where it does.
func beneath(c net.Conn) net.Conn {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		return t.NetConn()
	}
	return c
}
