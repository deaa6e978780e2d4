//go:build unix

package http1

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// An exchange that is over before it begins leaves idle connections alone, and
// opens none.
func TestOverBeforeItBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(time.Minute)
		s.begin(t)()
		cause := errors.New("cause")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		var cut Exchange
		cut.Interrupt()
		for e, c := range map[*Exchange]struct {
			ctx  context.Context
			want error
		}{&cut: {t.Context(), errInterrupted}, {}: {ctx, cause}} {
			body := &closing{Reader: strings.NewReader("x")}
			_, err := s.t.RoundTrip(c.ctx, newRequest("POST", body), e, &interims{})
			if !errors.Is(err, c.want) || body.closed.Load() != 1 || e.Written() != 0 {
				t.Errorf("%v, body closed %d times, %d bytes", err, body.closed.Load(), e.Written())
			}
		}
		s.begin(t)()
		if len(s.nears) != 1 {
			t.Errorf("%d connections", len(s.nears))
		}
		s.over(t)
	})
}

// closing is a body that counts how often it is closed.
type closing struct {
	io.Reader
	closed atomic.Int32
}

func (c *closing) Close() error { c.closed.Add(1); return nil }

// What waits for the connection is ended by an interrupt at once, at whatever
// it waits; what waits for a dial, by the end of the context.
func TestInterruptEndsAtOnce(t *testing.T) {
	stuck := func(ctx context.Context) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
	for name, c := range map[string]struct {
		request func() *http.Request
		script  script
		answer  bool
	}{
		"dialling":                    {bare("GET"), nil, false},
		"writing":                     {long, script{deaf}, false},
		"writing, no body":            {bigHead, script{deaf}, false},
		"waiting":                     {bare("GET"), script{request}, false},
		"waiting, the body too":       {chunked("POST", slowly(time.Hour, "a")), script{head}, false},
		"waiting, interim":            {bare("GET"), script{request, say("HTTP/1.1 103 Early Hints\r\n\r\n")}, false},
		"waiting, within the head":    {bare("GET"), script{request, say(h11 + "X: y")}, false},
		"reading":                     {bare("GET"), script{request, say(h11 + "\r\nok")}, true},
		"reading, the body goes up":   {chunked("POST", slowly(time.Hour, "a")), script{head, say(h11 + "\r\nok")}, true},
		"reading, chunk":              {bare("GET"), script{request, say(h11 + te + "\r\n5\r\nok")}, true},
		"reading, within the trailer": {bare("GET"), script{request, say(h11 + te + "\r\n2\r\nok\r\n0\r\nX: y")}, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			near, far := newWire(window)
			transport := &Transport{Dial: dialling(near), IdleTimeout: time.Minute, MaxHeaderBytes: maxHead}
			if c.script == nil {
				transport.Dial = stuck
				_ = near.Close()
			}
			go c.script.play(&peer{wire: far})
			ctx, cancel := context.WithCancel(t.Context())
			var e Exchange
			time.AfterFunc(700*tick, func() { cancel(); e.Interrupt() })
			began := time.Now()
			res, err := transport.RoundTrip(ctx, c.request(), &e, &interims{})
			if (err == nil) != c.answer {
				t.Errorf("%s: %v", name, err)
			}
			if err == nil {
				got, err := io.ReadAll(res.Body)
				if string(got) != "ok" || err == nil {
					t.Errorf("%s: body %q, %v", name, got, err)
				}
				_ = res.Body.Close()
			}
			if took := time.Since(began); took != 700*tick {
				t.Errorf("%s: took %v", name, took)
			}
			if !near.isClosed() || len(transport.idle) > 0 {
				t.Errorf("%s: the connection is not closed", name)
			}
			time.Sleep(2 * time.Hour)
		})
	}
}

// What had come before an interrupt can be read; its connection is not used
// again.
func TestInterruptAfterTheAnswerCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(time.Minute)
		var e Exchange
		res, err := s.t.RoundTrip(t.Context(), newRequest("GET", nil), &e, &interims{})
		if err != nil {
			t.Fatal(err)
		}
		e.Interrupt()
		if got, err := io.ReadAll(res.Body); string(got) != "ok" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		if s.t.rests() != 0 {
			t.Error("a closed connection is idle")
		}
		s.over(t)
	})
}

// A dial that does not heed its context delays an interrupted exchange, but
// nothing is sent then.
func TestInterruptedDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := newWire(window)
		var e Exchange
		dial := func(context.Context) (net.Conn, error) {
			e.Interrupt()
			return near, nil
		}
		transport := &Transport{Dial: dial, IdleTimeout: time.Minute, MaxHeaderBytes: maxHead}
		_, err := transport.RoundTrip(t.Context(), newRequest("GET", nil), &e, &interims{})
		if !errors.Is(err, errInterrupted) || e.Written() != 0 || !near.isClosed() {
			t.Errorf("%v, written %d, closed %v", err, e.Written(), near.isClosed())
		}
		if n, err := far.Read(make([]byte, 9)); n > 0 || err != io.EOF {
			t.Errorf("the upstream read %d bytes, %v", n, err)
		}
	})
}

// An error is returned at once, where net/http's Transport waits for the body's
// read that is under way, which may be for ever.
func TestErrorsDoNotWaitForTheBody(t *testing.T) {
	slow := chunked("POST", slowly(500*tick, "a", "b"))
	scripts := []script{{head, settle, reset}}
	if got := play(t, ours, scripts, slow).Replies[0]; !got.Failed || got.Took != 3*tick {
		t.Errorf("http1: failed %v, took %v", got.Failed, got.Took)
	}
	if got := play(t, theirs, scripts, slow).Replies[0]; !got.Failed || got.Took != 501*tick {
		t.Errorf("net/http: failed %v, took %v; if it waits no more, compare", got.Failed, got.Took)
	}
}

// An answer's body is at its end when it is closed, for whoever reads it then
// and for a connection of which the rest was not read.
func TestBodyClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := newWire(window)
		go script{request, say("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello")}.play(&peer{wire: far})
		transport := &Transport{Dial: dialling(near), IdleTimeout: time.Minute, MaxHeaderBytes: maxHead}
		res, err := transport.RoundTrip(t.Context(), newRequest("GET", nil), new(Exchange), &interims{})
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(tick, func() { _ = res.Body.Close() })
		if got, err := io.ReadAll(res.Body); string(got) != "hello" || !errors.Is(err, net.ErrClosed) {
			t.Errorf("%q, %v", got, err)
		}
		if n, err := res.Body.Read(make([]byte, 9)); n > 0 || !errors.Is(err, http.ErrBodyReadAfterClose) {
			t.Errorf("after the close: %d bytes, %v", n, err)
		}
		if !near.isClosed() || len(transport.idle) > 0 {
			t.Error("the connection is used again")
		}
		_ = res.Body.Close()
	})
}

// A body's error stays as it was.
func TestBodyErrorStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := newWire(window)
		go script{request, say("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello"), hangUp}.play(&peer{wire: far})
		transport := &Transport{Dial: dialling(near), IdleTimeout: time.Minute, MaxHeaderBytes: maxHead}
		res, err := transport.RoundTrip(t.Context(), newRequest("GET", nil), new(Exchange), &interims{})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := io.ReadAll(res.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Error(err)
			}
		}
	})
}

// Whatever happens, a request's body is closed once.
func TestRequestBodiesAreClosed(t *testing.T) {
	for name, scripts := range map[string][]script{
		"no connection":    nil,
		"answer":           {{request, say(ok)}},
		"early answer":     {{head, say(ok), deaf}},
		"closed":           {{hangUp}},
		"closed later":     {{head, hangUp}},
		"never":            {{request, pause(2 * patience)}},
		"never, not read":  {{deaf}},
		"bad answer":       {{head, say("garbage\r\n\r\n")}},
		"bad answer's end": {{head, say(h11 + te + "\r\n2\r\nok\r\nx")}},
	} {
		for _, size := range []int{1, 5 * window} {
			body := &closing{Reader: strings.NewReader(strings.Repeat("x", size))}
			play(t, ours, scripts, func() *http.Request {
				r := newRequest("POST", body)
				r.ContentLength = int64(size)
				return r
			})
			if n := body.closed.Load(); n != 1 {
				t.Errorf("%s, %d bytes: closed %d times", name, size, n)
			}
		}
	}
}

// A handler's error ends the exchange and is returned.
func TestInterimHandlersError(t *testing.T) {
	enough := errors.New("enough")
	synctest.Test(t, func(t *testing.T) {
		near, far := newWire(window)
		go script{request, say("HTTP/1.1 103 Early Hints\r\n\r\n" + ok)}.play(&peer{wire: far})
		transport := &Transport{Dial: dialling(near), IdleTimeout: time.Minute, MaxHeaderBytes: maxHead}
		_, err := transport.RoundTrip(t.Context(), newRequest("GET", nil), new(Exchange), refusing{enough})
		if !errors.Is(err, enough) || !near.isClosed() {
			t.Errorf("%v, closed %v", err, near.isClosed())
		}
	})
}

type refusing struct{ err error }

func (r refusing) Interim(int, http.Header) error { return r.err }

// An upgrade was not asked for: net/http's Transport hands the connection over,
// here its end is the answer's.
func TestSwitchingProtocols(t *testing.T) {
	raw := "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nhello"
	got := play(t, ours, twice(say(raw)), bare("GET"), bare("GET"))
	if r := got.Replies[0]; r.Failed || r.Status != "101 Switching Protocols" || r.Body != "" || r.Broken {
		t.Errorf("%+v", r)
	}
	if len(got.Wires) != 2 {
		t.Errorf("%d connections, want a new one for the next request", len(got.Wires))
	}
}
