//go:build unix

package http1

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

const okClose = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"

// long is a request whose body is longer than what connections take unread.
var long = known("PUT", strings.Repeat("x", 5*window))

// bigHead is a request whose head is longer than that.
func bigHead() *http.Request {
	r := newRequest("GET", nil)
	r.Header.Set("X-Big", strings.Repeat("x", 2*window))
	return r
}

// An answer may come while its request still goes up. Whether the connection is
// used again, and how long that is waited for, is as in net/http's Transport.
func TestEarlyAnswers(t *testing.T) {
	rest := receive(5 * window)
	for name, c := range map[string]struct {
		request func() *http.Request
		first   script
	}{
		"the rest is read":             {long, script{head, say(ok), pause(10 * tick), rest, settle, request, say(ok)}},
		"the rest is read too late":    {long, script{head, say(ok), pause(60 * tick), rest, request, say(ok)}},
		"the rest is not read":         {long, script{head, say(ok), pause(2 * patience)}},
		"the rest is not read, 204":    {long, script{head, say("HTTP/1.1 204 No Content\r\n\r\n"), pause(2 * patience)}},
		"the rest is not read, close":  {long, script{head, say(okClose), pause(2 * patience)}},
		"closed":                       {long, script{head, say(okClose), settle, hangUp}},
		"shut down":                    {long, script{head, say(okClose), settle, shutdown, rest}},
		"reset":                        {long, script{head, say(ok), settle, reset}},
		"reset in the answer's body":   {long, script{head, say(ok[:len(ok)-1]), settle, reset}},
		"interim first":                {long, script{head, say("HTTP/1.1 103 Early Hints\r\n\r\n"), rest, settle, say(ok), request, say(ok)}},
		"reset without an answer":      {long, script{head, reset}},
		"shut down without an answer":  {long, script{head, shutdown, pause(2 * patience)}},
		"takes nothing":                {long, script{pause(2 * patience)}},
		"by pieces of known length":    {sized(3, slowly(300*tick, "a", "b", "c")), script{head, receive(1), say(okClose), hangUp}},
		"by pieces":                    {chunked("POST", slowly(300*tick, "a", "b", "c")), script{head, receive(6), say(okClose), hangUp}},
		"slow, answered before":        {chunked("POST", slowly(20*tick, "a", "b")), script{head, say(ok), receive(17), settle, request, say(ok)}},
		"slow, answered long before":   {chunked("POST", slowly(200*tick, "a", "b")), script{head, say(ok), receive(17), request, say(ok)}},
		"unreadable after the answer":  {chunked("POST", slowThenFailing(20*tick)), script{head, say(ok), pause(patience)}},
		"unreadable within the answer": {chunked("POST", slowThenFailing(20*tick)), script{head, inPieces(ok, 10), say(ok[:3]), pause(patience)}},
		"unreadable before the answer": {chunked("POST", slowThenFailing(20*tick)), script{head, pause(30 * tick), say(ok)}},
	} {
		scripts := []script{c.first, {request, say(ok), request, say(ok)}}
		want, got := play(t, theirs, scripts, c.request, bare("GET")), play(t, ours, scripts, c.request, bare("GET"))
		for _, s := range []session{want, got} {
			// How much of a body goes out before its connection is closed is chance.
			s.Wires[0] = regexp.MustCompile("x*").ReplaceAllString(s.Wires[0], "")
		}
		if d := diff(want, got); d != "" {
			t.Errorf("%s (-net/http +http1):\n%s", name, d)
		}
	}
}

// An upstream that stops reading has often said why. net/http's Transport
// closes the connection as soon as it cannot write, and may so lose an answer
// that has come; here it is heard, and its body read to the end.
func TestLastWords(t *testing.T) {
	slow := inPieces(strings.Replace(okClose, "\r\n\r\nok", "\r\n\r\n", 1), 1000)
	for name, c := range map[string]struct {
		request func() *http.Request
		first   script
		failed  bool
		took    time.Duration
	}{
		"at once":              {long, script{receive(1), say(okClose), hangUp}, false, 0},
		"at once, no body":     {bigHead, script{receive(1), say(okClose), hangUp}, false, 0},
		"after a while":        {long, script{receive(1), refuse, pause(grace - 1), say(okClose)}, false, grace - 1},
		"slowly":               {long, script{receive(1), refuse, slow, pause(2*grace - tick), say("ok")}, false, 2 * grace},
		"slowly, no body":      {bigHead, script{receive(1), refuse, slow, pause(2*grace - tick), say("ok")}, false, 2 * grace},
		"too late":             {long, script{receive(1), refuse, pause(grace + 1), say(okClose)}, true, grace},
		"too late, no body":    {bigHead, script{receive(1), refuse, pause(grace + 1), say(okClose)}, true, grace},
		"nothing":              {long, script{receive(1), hangUp}, true, 0},
		"nothing, no body":     {bigHead, script{receive(1), hangUp}, true, 0},
		"too much to answer":   {bigHead, script{refuse, say("garbage\r\n")}, true, 0},
		"nothing was taken":    {long, script{refuse, pause(patience)}, true, 0},
		"nothing was taken, 0": {bare("GET"), script{refuse, pause(patience)}, true, 0},
	} {
		got := play(t, ours, []script{c.first}, c.request).Replies[0]
		got.Took -= tick // of dialling
		if got.Failed != c.failed || got.Took != c.took || !c.failed && got.Body != "ok" {
			t.Errorf("%s: failed %v, took %v, body %q; want %v, %v", name, got.Failed, got.Took, got.Body, c.failed, c.took)
		}
	}
}

// The connection of an answer that came to its end is no other than a new one.
func TestLastWordsOnAUsedConnection(t *testing.T) {
	first := script{request, say(ok), receive(1), refuse, pause(grace + 1), say(ok)}
	got := play(t, ours, []script{first}, bare("GET"), long).Replies[1]
	if !got.Failed || got.Took != grace {
		t.Errorf("failed %v, took %v", got.Failed, got.Took)
	}
}

// dying is a connection whose other side has closed it, and that still takes
// some bytes, which it tells only after it has been closed.
type dying struct {
	*wire
	once   sync.Once
	cut    chan struct{}
	writes int
}

func (d *dying) Close() error { d.once.Do(func() { close(d.cut) }); return nil }
func (d *dying) Write([]byte) (int, error) {
	d.writes++
	<-d.cut
	for range 1000 {
		runtime.Gosched()
	}
	return 5, syscall.EPIPE
}

// A request that has failed can be sent again if nothing of it was written.
// What is being written when it fails counts: before, Written said 0 for bytes
// that went out a moment later.
func TestWrittenCountsAWriteUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := newWire(window)
		d := &dying{wire: near, cut: make(chan struct{})}
		time.AfterFunc(tick, far.closeWrite)
		transport := &Transport{Dial: dialling(d), IdleTimeout: time.Minute, MaxHeaderBytes: maxHead}
		var e Exchange
		if _, err := transport.RoundTrip(t.Context(), known("POST", "hello")(), &e, &interims{}); err == nil {
			t.Error("an answer")
		}
		if e.Written() != 5 || !e.Ended() || e.Reused() {
			t.Errorf("written %d, ended %v, reused %v", e.Written(), e.Ended(), e.Reused())
		}
		synctest.Wait()
		if d.writes != 1 {
			t.Errorf("%d writes", d.writes)
		}
	})
}

// Written counts what was written of one request, not of those before it.
func TestWrittenOnAUsedConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := newWire(window)
		go script{request, say(ok), refuse}.play(&peer{wire: far})
		transport := &Transport{Dial: dialling(near), IdleTimeout: time.Minute, MaxHeaderBytes: maxHead}
		first := len("GET /a%2Fb?q=1;2 HTTP/1.1\r\nHost: upstream.test\r\nX-Caller: yes\r\n\r\n")
		for i, want := range []int64{int64(first), 0} {
			var e Exchange
			res, err := transport.RoundTrip(t.Context(), newRequest("GET", nil), &e, &interims{})
			if err == nil {
				_, _ = io.Copy(io.Discard, res.Body)
			}
			if e.Written() != want || e.Reused() != (i == 1) || (err == nil) != (i == 0) {
				t.Errorf("request %d: %v, written %d, reused %v", i, err, e.Written(), e.Reused())
			}
			synctest.Wait()
		}
	})
}

func dialling(c net.Conn) func(context.Context) (net.Conn, error) {
	return func(context.Context) (net.Conn, error) { return c, nil }
}

// Why a request could not be sent can be told from the error: before, it was
// hidden in one of net/http's own.
func TestErrorsCanBeLookedInto(t *testing.T) {
	for name, c := range map[string]struct {
		request func() *http.Request
		first   script
		want    error
	}{
		"body":               {chunked("POST", failing("hello")), script{request, pause(patience)}, errUnreadable},
		"body, known length": {sized(9, failing("hello")), script{request, pause(patience)}, errUnreadable},
		"refused":            {long, script{head, refuse, pause(patience)}, syscall.EPIPE},
		"refused, chunked":   {chunked("PUT", plainly(strings.Repeat("x", 5*window))), script{head, refuse, pause(patience)}, syscall.EPIPE},
		"refused, no body":   {bare("GET"), script{refuse, pause(patience)}, syscall.EPIPE},
		"reset":              {bare("GET"), script{request, reset}, syscall.ECONNRESET},
	} {
		synctest.Test(t, func(t *testing.T) {
			near, far := newWire(window)
			go c.first.play(&peer{wire: far})
			time.Sleep(tick)
			transport := &Transport{Dial: dialling(near), IdleTimeout: time.Minute, MaxHeaderBytes: maxHead}
			_, err := transport.RoundTrip(t.Context(), c.request(), new(Exchange), &interims{})
			if !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
			time.Sleep(2 * patience)
		})
	}
}
