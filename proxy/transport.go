package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// idlePerHost is far above any bulkhead: how many connections there can
	// be is the bulkhead's to say, and an idle one is cheaper than a new one.
	idlePerHost = 4096
	// idleConnTimeout closes a connection before common servers do (60 s and
	// more), so that a request seldom meets one that is just being closed.
	idleConnTimeout = 50 * time.Second
	// maxResponseHeader bounds an upstream's response headers.
	maxResponseHeader = 1 << 20
)

// pool holds the connections to one upstream.
type pool struct {
	http.RoundTripper
	id     uint64 // no two pools have the same
	retire func()
}

// newPool returns connections that add nothing to a request, follow no proxy
// from the environment and re-send nothing (see [sendOnce]).
func newPool(s *Settings) *pool {
	dialer := &dialer{tlsConfig: s.TLS}
	t := &http.Transport{
		DialContext:            dialer.plain,
		DialTLSContext:         dialer.tls,
		DisableCompression:     true,
		MaxIdleConns:           0,
		MaxIdleConnsPerHost:    idlePerHost,
		IdleConnTimeout:        idleConnTimeout,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: maxResponseHeader,
		Protocols:              new(http.Protocols),
	}
	t.Protocols.SetHTTP1(true)
	return &pool{RoundTripper: t, id: pools.Add(1), retire: t.CloseIdleConnections}
}

// pools counts the pools made, to number them.
var pools atomic.Uint64

// dialer opens connections, each within the connect_timeout of the call that
// asked for it. Its errors are [dialError]s.
type dialer struct{ tlsConfig *tls.Config }

// plain connects.
func (d *dialer) plain(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := connectContext(ctx)
	defer cancel()
	return connect(ctx, network, address)
}

// tls connects and shakes hands, both within one connect_timeout.
func (d *dialer) tls(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := connectContext(ctx)
	defer cancel()
	conn, err := connect(ctx, network, address)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{}
	if d.tlsConfig != nil {
		config = d.tlsConfig.Clone()
	}
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(address)
	}
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, &dialError{&tlsError{err}}
	}
	return secure, nil
}

// connectContext bounds a connect by connect_timeout, and by the attempt that
// asked for it where that is given up: net/http's Transport goes on, and a dead
// address would so hold more than its compartment. An attempt that has found
// another connection leaves this one to the pool.
func connectContext(ctx context.Context) (context.Context, context.CancelFunc) {
	c := callOf(ctx)
	cancel := context.CancelFunc(nil)
	if t := c.policy.ConnectTimeout; t > 0 {
		ctx, cancel = context.WithTimeout(ctx, t)
	} else {
		ctx, cancel = context.WithCancel(ctx)
	}
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

func connect(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, &dialError{err}
	}
	return &countedConn{Conn: conn}, nil
}

// tlsError marks an error of the TLS handshake.
type tlsError struct{ err error }

func (e *tlsError) Error() string { return e.err.Error() }
func (e *tlsError) Unwrap() error { return e.err }

// countedConn counts the bytes written, so that "nothing was sent" can be
// proved.
type countedConn struct {
	net.Conn
	written atomic.Int64
}

// Write counts what the operating system took.
func (c *countedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.written.Add(int64(n))
	return n, err
}

// CloseWrite passes a half-close on, which upgraded connections need.
func (c *countedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return net.ErrClosed
}

// writtenOn returns how many bytes have been written on a connection, and
// whether that is known.
func writtenOn(c net.Conn) (int64, bool) {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = t.NetConn()
	}
	if counted, ok := c.(*countedConn); ok {
		return counted.written.Load(), true
	}
	return 0, false
}

// sendOnce changes a request without a body so that net/http's Transport
// cannot send it a second time on its own. The Transport repeats idempotent
// requests whose kept-alive connection died, which would be an attempt that
// nobody decided or counted; it does so only where it can rebuild the body, so
// an empty body that is not [http.NoBody] stops it. "identity" keeps that body
// from being framed: the request goes out exactly as without one.
func sendOnce(r *http.Request) {
	if r.Body != nil && r.Body != http.NoBody {
		return
	}
	switch r.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch:
		// These say Content-Length: 0, and are repeated only with an
		// Idempotency-Key, which the Transport looks up by its canonical name.
		r.Body = nil
		hideIdempotencyKey(r)
		return
	}
	r.Body = emptyBody{}
	r.TransferEncoding = []string{"identity"}
}

// hideIdempotencyKey writes the key's name in lower case. Names of fields are
// case-insensitive (RFC 9110 §5.1), the Transport's look-up is not.
func hideIdempotencyKey(r *http.Request) {
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		if v, ok := r.Header[name]; ok {
			r.Header = r.Header.Clone()
			delete(r.Header, name)
			r.Header[strings.ToLower(name)] = v
		}
	}
}

// emptyBody is a body of no bytes that is not [http.NoBody].
type emptyBody struct{}

func (emptyBody) Read([]byte) (int, error) { return 0, io.EOF }
func (emptyBody) Close() error             { return nil }
