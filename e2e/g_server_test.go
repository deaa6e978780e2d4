package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"testing"
)

// server is an upstream of net/http's, for HTTP/2 and TLS. It is safe for
// concurrent use.
type server struct {
	addr string
	http *http.Server

	mu       sync.Mutex // guards everything below
	handler  http.HandlerFunc
	served   int
	protocol string // of the last request
	accepted int
}

// newServer starts an upstream that speaks the given protocols, with TLS if
// there is a configuration for it. Its connections must end before the
// sidecar's end is examined: see [sidecar.without].
func newServer(t *testing.T, protocols string, config *tls.Config, handler http.HandlerFunc) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	v := &server{addr: l.Addr().String(), handler: handler}
	v.http = &http.Server{
		Handler: http.HandlerFunc(v.serve), ErrorLog: log.New(io.Discard, "", 0), Protocols: speaking(protocols), TLSConfig: config,
		ConnState: v.watch,
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		if config != nil {
			_ = v.http.ServeTLS(l, "", "")
			return
		}
		_ = v.http.Serve(l)
	})
	t.Cleanup(func() {
		_ = v.http.Close()
		serving.Wait()
	})
	return v
}

// speaking returns net/http's word for "http1", "h2", "h2c", or several.
func speaking(names string) *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(bytes.Contains([]byte(names), []byte("http1")))
	p.SetUnencryptedHTTP2(bytes.Contains([]byte(names), []byte("h2c")))
	p.SetHTTP2(names == "h2" || names == "http1 h2")
	return p
}

func (v *server) serve(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	v.served++
	v.protocol = r.Proto
	handler := v.handler
	v.mu.Unlock()
	handler(w, r)
}

func (v *server) watch(_ net.Conn, state http.ConnState) {
	if state == http.StateNew {
		v.mu.Lock()
		v.accepted++
		v.mu.Unlock()
	}
}

// handle changes what becomes of requests that come from now on.
func (v *server) handle(handler http.HandlerFunc) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.handler = handler
}

// seen returns how many requests came, on how many connections, and in which
// protocol the last.
func (v *server) seen() (requests, connections int, protocol string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.served, v.accepted, v.protocol
}

// without closes servers before the sidecar is examined at the test's end.
func (s *sidecar) without(t *testing.T, servers ...*server) {
	t.Cleanup(func() {
		for _, v := range servers {
			_ = v.http.Close()
		}
	})
}

// speaker returns a client that speaks HTTP/1.1 or, by prior knowledge, h2c
// with the sidecar. Its connections end with the test.
func (s *sidecar) speaker(t *testing.T, protocol string) *http.Client {
	t.Helper()
	tr := &http.Transport{DisableCompression: true, Protocols: speaking(protocol)}
	tr.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			s.mu.Lock()
			s.conns = append(s.conns, c)
			s.mu.Unlock()
		}
		return c, err
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 3 * patience}
}

// exchangeOver makes one call over a client and returns the whole answer.
func (s *sidecar) exchangeOver(t *testing.T, c *http.Client, req *http.Request) (res *http.Response, body string) {
	t.Helper()
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%s: after %d bytes: %v", res.Status, len(text), err)
	}
	return res, string(text)
}

// request builds a call to a listener.
func (s *sidecar) request(t *testing.T, method, port, path string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, s.url(port)+path, body)
	if err != nil {
		t.Fatal(err)
	}
	return req
}
