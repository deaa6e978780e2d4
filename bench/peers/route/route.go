// Package route is what the proxies written for this benchmark have in common:
// listeners, upstreams, and a transport and buffers fit for many calls.
package route

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"
)

// flushInterval bounds how long a slow body is held back. It is small and
// positive: -1 would flush after every write.
const flushInterval = 5 * time.Millisecond

// Routes is the flag -route LISTEN=UPSTREAM, both host and port, given once
// for each listener.
type Routes [][2]string

var _ flag.Value = (*Routes)(nil)

// String returns the flags' values.
func (r *Routes) String() string { return fmt.Sprint(*r) }

// Set adds a route.
func (r *Routes) Set(s string) error {
	listen, upstream, found := strings.Cut(s, "=")
	if !found {
		return errors.New("must be LISTEN=UPSTREAM, such as 127.0.0.1:1=127.0.0.1:2")
	}
	*r = append(*r, [2]string{listen, upstream})
	return nil
}

// Serve runs each route with the handler that is made for its upstream, until
// SIGTERM.
func (r *Routes) Serve(handler func(upstream string) http.Handler) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	failed := make(chan error, len(*r))
	for _, one := range *r {
		server := &http.Server{Addr: one[0], Handler: handler(one[1]), ReadHeaderTimeout: 10 * time.Second}
		go func() { failed <- server.ListenAndServe() }()
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

// Transport returns a transport that keeps its connections.
func Transport() *http.Transport {
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: time.Second}).DialContext,
		DisableCompression:  true,
		MaxIdleConnsPerHost: 4096,
		IdleConnTimeout:     50 * time.Second,
	}
}

// Proxy returns a reverse proxy to an upstream.
func Proxy(upstream string, through http.RoundTripper) *httputil.ReverseProxy {
	to := &url.URL{Scheme: "http", Host: upstream}
	return &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport:     through,
		BufferPool:    new(buffers),
		FlushInterval: flushInterval,
	}
}

// buffers lends what bodies are copied with.
type buffers struct{ pool sync.Pool }

// Get returns a buffer of 32 KiB.
func (b *buffers) Get() []byte {
	if buf, ok := b.pool.Get().(*[]byte); ok {
		return *buf
	}
	return make([]byte, 32<<10)
}

// Put takes a buffer back.
func (b *buffers) Put(buf []byte) { b.pool.Put(&buf) }
