//go:build unix

package http1

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

const (
	tick     = time.Millisecond // between one event and the next; only waiting takes time
	patience = time.Second + 7  // after which a caller gives up, when nothing else happens
	maxHead  = 6000             // bytes; more than a reader's buffer holds
	window   = 16 << 10         // bytes that a connection takes unread
)

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// step is something an upstream does, and script what it does on one
// connection; then it reads until the connection is closed.
type (
	step   func(*peer)
	script []step
)

// peer is the upstream's end of a connection.
type peer struct {
	*wire
	read *bufio.Reader
	got  bytes.Buffer // all that came, read or not
}

func (s script) play(p *peer) {
	p.read = bufio.NewReader(io.TeeReader(p.wire, &p.got))
	for _, step := range s {
		step(p)
	}
	_, _ = io.Copy(io.Discard, p.read)
	_ = p.Close()
	p.in.change(func() { p.got.Write(p.in.held) })
}

// request reads a request to its end, and lets its sender note that it has sent
// it.
func request(p *peer) {
	if r, err := http.ReadRequest(p.read); err == nil {
		_, _ = io.Copy(io.Discard, r.Body)
	}
	settle(p)
}

// head reads a request's head.
func head(p *peer) {
	_, _ = http.ReadRequest(p.read)
	settle(p)
}

// deaf reads nothing for longer than any caller waits.
func deaf(*peer) { time.Sleep(2 * patience) }

// refuse takes no more bytes, and goes on.
func refuse(p *peer) { p.in.change(func() { p.in.gone = syscall.EPIPE }) }

// receive reads n bytes.
func receive(n int64) step { return func(p *peer) { _, _ = io.CopyN(io.Discard, p.read, n) } }

func hangUp(p *peer)             { _ = p.Close() }
func shutdown(p *peer)           { p.closeWrite() }
func reset(p *peer)              { p.resetBoth() }
func settle(*peer)               { time.Sleep(tick) }
func pause(d time.Duration) step { return func(*peer) { time.Sleep(d) } }
func say(s string) step          { return func(p *peer) { _, _ = io.WriteString(p, s) } }

// inPieces says s in pieces of n bytes, each of which is read by itself.
func inPieces(s string, n int) step {
	return func(p *peer) {
		for piece := range slices.Chunk([]byte(s), n) {
			say(string(piece))(p)
			settle(p)
		}
	}
}

// twice is an upstream whose first connection gives an answer, does what
// follows, and then answers properly, as any other connection does.
func twice(answer step, then ...step) []script {
	first := script{request, answer, settle}
	first = append(append(first, then...), request, say(ok))
	return []script{first, {request, say(ok), request, say(ok)}}
}

// reply is what a caller saw of an answer.
type reply struct {
	Failed, Unreadable bool // without an answer; because the request body could not be read
	Status             string
	Proto              string
	Header             http.Header
	ContentLength      int64
	Encoding           []string
	Close              bool
	Interim            []string
	Body               string
	Broken             bool // the body did not come to its end
	Trailer            http.Header
	Took               time.Duration
}

// session is what callers and upstream saw of several calls, one after the
// other.
type session struct {
	Replies []reply
	Wires   []string // what came on each connection
	Open    int      // connections that are open at the end
}

// errUnreadable is that of a request body.
var errUnreadable = errors.New("the request body cannot be read")

// client is a transport under test. The function it returns makes one exchange,
// which is given up after [patience].
type client func(dial func(context.Context) (net.Conn, error)) (
	send func(*http.Request, InterimHandler) (*http.Response, error), closeIdle func())

func ours(dial func(context.Context) (net.Conn, error)) (func(*http.Request, InterimHandler) (*http.Response, error), func()) {
	t := &Transport{Dial: dial, IdleTimeout: time.Minute, MaxHeaderBytes: maxHead}
	return func(r *http.Request, h InterimHandler) (*http.Response, error) {
		if _, needless := r.Body.(onceOnly); needless {
			r.Body, r.TransferEncoding = nil, nil
		}
		e := new(Exchange)
		time.AfterFunc(patience, e.Interrupt)
		return t.RoundTrip(r.Context(), r, e, h)
	}, t.CloseIdleConnections
}

func theirs(dial func(context.Context) (net.Conn, error)) (func(*http.Request, InterimHandler) (*http.Response, error), func()) {
	t := &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		DisableCompression:  true,
		MaxIdleConnsPerHost: 100, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: maxHead,
	}
	return func(r *http.Request, h InterimHandler) (*http.Response, error) {
		ctx, cancel := context.WithCancel(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, h1 textproto.MIMEHeader) error { return h.Interim(code, http.Header(h1)) },
		}))
		time.AfterFunc(patience, cancel)
		return t.RoundTrip(r.WithContext(ctx))
	}, t.CloseIdleConnections
}

// interims hears of interim responses.
type interims []string

func (i *interims) Interim(status int, header http.Header) error {
	*i = append(*i, fmt.Sprint(status, header))
	return nil
}

// play makes calls, one after the other, to an upstream that plays one script
// for each connection.
func play(t *testing.T, c client, scripts []script, calls ...func() *http.Request) (s session) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		var peers []*peer
		var nears []*wire
		var playing sync.WaitGroup
		send, closeIdle := c(func(context.Context) (net.Conn, error) {
			if len(peers) == len(scripts) {
				return nil, errors.New("the upstream takes no more connections")
			}
			near, far := newWire(window)
			p := &peer{wire: far}
			nears = append(nears, near)
			peers = append(peers, p)
			s := scripts[len(peers)-1]
			playing.Go(func() { s.play(p) })
			time.Sleep(tick)
			return near, nil
		})
		for _, call := range calls {
			s.Replies = append(s.Replies, exchange(send, call()))
			time.Sleep(100 * tick)
		}
		time.Sleep(30 * lookEvery) // until all has been said, and looked at
		for _, near := range nears {
			if !near.isClosed() {
				s.Open++
			}
		}
		closeIdle()
		playing.Wait()
		for _, p := range peers {
			s.Wires = append(s.Wires, p.got.String())
		}
	})
	return s
}

// exchange makes a call.
func exchange(send func(*http.Request, InterimHandler) (*http.Response, error), r *http.Request) (a reply) {
	began := time.Now()
	defer func() { a.Took = time.Since(began) }()
	var heard interims
	res, err := send(r, &heard)
	a.Interim = heard
	if err != nil {
		a.Failed, a.Unreadable = true, errors.Is(err, errUnreadable)
		return a
	}
	a.Status, a.Proto, a.Header, a.ContentLength, a.Encoding, a.Close =
		res.Status, res.Proto, res.Header, res.ContentLength, res.TransferEncoding, res.Close
	body, err := io.ReadAll(res.Body)
	a.Body, a.Broken, a.Trailer = string(body), err != nil, res.Trailer
	_ = res.Body.Close()
	return a
}

// stream is a body that is none of those whose length net/http can see.
type stream struct{ io.Reader }

func (stream) Close() error { return nil }

// onceOnly is an empty body, behind which net/http's Transport does not see
// that it could send a request again.
type onceOnly struct{}

func (onceOnly) Read([]byte) (int, error) { return 0, io.EOF }
func (onceOnly) Close() error             { return nil }
