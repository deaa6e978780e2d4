package proxy

import (
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"sidecar/http1"
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
	// connectionAge is how long connections to a named upstream take new
	// requests. After it the name is looked up again, so that traffic follows
	// a name that has moved while the old address still answers.
	connectionAge = 60 * time.Second
	// pingAfter and pingTimeout find a dead HTTP/2 connection: silent for the
	// one, it must answer a ping within the other.
	pingAfter   = 5 * time.Second
	pingTimeout = 5 * time.Second
)

// Protocol says how an upstream is spoken to.
type Protocol int

// The protocols of SPEC and configuration.
const (
	ProtocolAuto  Protocol = iota // https: ALPN; http: as the caller speaks, HTTP/1.1 or h2c
	ProtocolHTTP1                 // HTTP/1.1
	ProtocolH2                    // HTTP/2 over TLS
	ProtocolH2C                   // HTTP/2 without TLS, by prior knowledge
)

// pool holds the connections to one upstream. It is safe for concurrent use.
type pool struct {
	instead  http.RoundTripper // of the transports below, where settings name one
	upstream *url.URL
	protocol Protocol
	secure   bool // https
	dialer   *dialer
	ages     bool // the upstream is a name, which can move

	mu      sync.Mutex // serialises renew
	current atomic.Pointer[transports]
}

// transports are the connections of one age, by how they speak.
type transports struct {
	born         time.Time
	direct       *http1.Transport // HTTP/1.1 without TLS, but for what it leaves to net/http; may be nil
	http1, http2 *http.Transport
	agreed       *http.Transport // whichever of both ALPN agrees on (RFC 7301)
}

// newPool returns connections that add nothing to a request, follow no proxy
// from the environment and re-send nothing unseen (see [sendOnce]).
func newPool(s *Settings) *pool {
	p := &pool{
		instead: s.Transport, upstream: s.Upstream, protocol: s.Protocol, secure: s.Upstream.Scheme == "https",
		dialer: newDialer(s.TLS), ages: isName(s.Upstream),
	}
	p.current.Store(p.newTransports())
	return p
}

// send sends an attempt's request and returns the answer with its headers.
func (p *pool) send(a *attempt, req *http.Request) (*http.Response, error) {
	now := p.present()
	t, http2 := p.pick(now, req)
	switch {
	case p.instead != nil:
		return p.instead.RoundTrip(a.traced(req))
	case http2:
		return t.RoundTrip(a.traced(req))
	case now.direct == nil, req.Header["Upgrade"] != nil, req.Header["Expect"] != nil:
		return t.RoundTrip(sendOnce(a.traced(req)))
	default:
		return a.direct(now.direct, req)
	}
}

func isName(u *url.URL) bool { return net.ParseIP(u.Hostname()) == nil }

// isASCII tells names that are looked up as they stand from those that net/http
// has to encode (RFC 5891).
func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf })
}

func (p *pool) newTransports() *transports {
	t := &transports{born: time.Now(), http1: p.newTransport(), http2: p.newTransport(), agreed: p.newTransport()}
	if !p.secure && isASCII(p.upstream.Host) {
		t.direct = &http1.Transport{
			Dial: p.dialer.direct(p.upstream), IdleTimeout: idleConnTimeout, MaxHeaderBytes: maxResponseHeader,
		}
	}
	t.http1.Protocols.SetHTTP1(true)
	t.http1.DialTLSContext = p.dialer.secure("http/1.1")
	t.http2.Protocols.SetHTTP2(true)
	t.http2.Protocols.SetUnencryptedHTTP2(true)
	t.http2.DialTLSContext = p.dialer.secure("h2")
	t.agreed.Protocols.SetHTTP1(true)
	t.agreed.Protocols.SetHTTP2(true)
	t.agreed.DialTLSContext = p.dialer.secure("h2", "http/1.1")
	return t
}

func (p *pool) newTransport() *http.Transport {
	return &http.Transport{
		DialContext:            p.dialer.plain,
		DisableCompression:     true,
		MaxIdleConnsPerHost:    idlePerHost,
		IdleConnTimeout:        idleConnTimeout,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: maxResponseHeader,
		Protocols:              new(http.Protocols),
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
	}
}

// pick chooses the transport that speaks as protocol says, and tells whether
// that is HTTP/2, or may be: before the first handshake there is no connection
// that could have died, and in HTTP/2 [sendOnce] would be seen. An upgrade is
// HTTP/1.1's alone (RFC 9110 §7.8).
func (p *pool) pick(now *transports, r *http.Request) (t *http.Transport, http2 bool) {
	switch {
	case p.protocol == ProtocolHTTP1, r.Header.Get("Upgrade") != "":
		return now.http1, false
	case p.protocol == ProtocolH2, p.protocol == ProtocolH2C:
		return now.http2, true
	case p.secure:
		return now.agreed, !p.dialer.agreedHTTP1.Load()
	case callOf(r.Context()).r.ProtoMajor == 2:
		return now.http2, true
	default:
		return now.http1, false
	}
}

// present returns the transports of this age, new ones where the last have
// become too old. The old ones' idle connections are closed at once, the
// others as their calls end.
func (p *pool) present() *transports {
	t := p.current.Load()
	if !p.ages || time.Since(t.born) < connectionAge {
		return t
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := p.current.Load(); now != t {
		return now
	}
	p.current.Store(p.newTransports())
	t.close()
	return p.current.Load()
}

// retire lets idle connections go; calls in flight keep theirs to their end.
func (p *pool) retire() { p.current.Load().close() }

func (t *transports) close() {
	if t.direct != nil {
		t.direct.CloseIdleConnections()
	}
	for _, one := range []*http.Transport{t.http1, t.http2, t.agreed} {
		one.CloseIdleConnections()
	}
}
