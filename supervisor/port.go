package supervisor

import (
	"context"
	"log"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"sidecar/proxy"
)

const (
	// headerTimeout bounds how long a caller may take over its request's
	// headers, so that trickled ones cannot hold a connection for ever.
	headerTimeout = 10 * time.Second
	// callerIdle keeps a caller's connection longer than common clients do
	// (90 s and less), so that they seldom meet one that is just being closed.
	callerIdle = 3 * time.Minute
	// maxRequestHeader bounds a request's headers; above it 431.
	maxRequestHeader = 1 << 20
	// maxStreams is how many calls one HTTP/2 connection of the app may carry.
	// How many run is the bulkhead's to say: a lower bound here would be a
	// queue that nobody sees.
	maxStreams = 4096
	// closeGrace is how long the ends of cut-off calls may take to be told.
	closeGrace = time.Second
)

// port is one listening socket with its server. What it serves can change.
type port struct {
	listener net.Listener
	server   *http.Server
	cutOff   context.CancelFunc // ends every call on this port
	handler  atomic.Pointer[http.Handler]
	calls    atomic.Int64 // handlers that run
	started  bool
}

// openPort binds an address without accepting yet; connections wait in the
// kernel until serve is called.
func openPort(address string, complaints *log.Logger) (*port, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, err
	}
	p := &port{listener: l}
	base, cancel := context.WithCancel(context.Background())
	p.cutOff = cancel
	p.server = &http.Server{
		Handler:                      p,
		ReadHeaderTimeout:            headerTimeout,
		IdleTimeout:                  callerIdle,
		MaxHeaderBytes:               maxRequestHeader,
		ErrorLog:                     complaints,
		BaseContext:                  func(net.Listener) context.Context { return base },
		ConnContext:                  proxy.ConnContext,
		Protocols:                    new(http.Protocols),
		HTTP2:                        &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		DisableGeneralOptionsHandler: true, // OPTIONS * is the upstream's to answer
	}
	p.server.Protocols.SetHTTP1(true)
	p.server.Protocols.SetUnencryptedHTTP2(true)
	return p, nil
}

// ServeHTTP hands a request to whatever the port serves at this moment.
func (p *port) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.calls.Add(1)
	defer p.calls.Add(-1)
	(*p.handler.Load()).ServeHTTP(w, r)
}

// serve makes h what the port serves, and starts accepting the first time.
func (p *port) serve(h http.Handler) {
	p.handler.Store(&h)
	if !p.started {
		p.started = true
		p.accept()
	}
}

// accept serves the connections that come, until the listener is closed.
func (p *port) accept() {
	l := proxy.Listener(p.listener)
	go func() { _ = p.server.Serve(l) }()
}

// reopen listens anew after the listener was closed to make room.
func (p *port) reopen() error {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", p.listener.Addr().String())
	if err != nil {
		return err
	}
	p.listener = l
	p.accept()
	return nil
}

// refuse frees the address at once. Connections that are there end after the
// calls on them.
func (p *port) refuse() {
	_ = p.listener.Close()
	p.server.SetKeepAlivesEnabled(false)
}

// drain lets calls end until ctx does, and closes. [http.Server.Shutdown] would
// also wait for connections on which nothing has come yet.
func (p *port) drain(ctx context.Context) {
	waitUntil(ctx, func() bool { return p.calls.Load() == 0 })
	p.close()
}

// close ends every call and connection on this port. The ends of calls are
// waited for a moment, so that they are told.
func (p *port) close() {
	_ = p.listener.Close()
	p.cutOff()
	ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
	defer cancel()
	waitUntil(ctx, func() bool { return p.calls.Load() == 0 })
	_ = p.server.Close()
}
