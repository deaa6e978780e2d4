package proxy

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"time"
)

// reply is what the scripted upstream does with one request.
type reply struct {
	after    time.Duration // from the end of the request body to the headers
	early    bool          // after counts from the request's beginning instead
	noConn   bool          // no connection: fails tells why
	dead     bool          // the connection was kept alive and has died: nothing can be written
	fails    error         // instead of an answer
	informed int           // a 1xx before it
	status   int           // 0 = 200
	header   http.Header
	body     []step
	length   int64              // Content-Length; 0 = what the body's text makes, negative = unknown
	switches io.ReadWriteCloser // the connection after a 101
	closed   func()             // called when the answer's body is closed
}

// step is a part of a body, after a wait; an error ends it.
type step struct {
	after time.Duration
	text  string
	err   error
}

// text is a body that comes at once.
func text(s string) []step { return []step{{text: s}} }

// total is the length of all the steps' text.
func total(steps []step) (n int64) {
	for _, s := range steps {
		n += int64(len(s.text))
	}
	return n
}

// request is what the upstream saw.
type request struct {
	method, target, host string
	header               http.Header
	body                 string
	length               int64
	at                   time.Time
}

// upstream is a RoundTripper that plays replies, one for each request; the
// last one repeats. It treats the request's body and context as net/http's
// Transport does.
type upstream struct {
	mu      sync.Mutex
	replies []reply
	choose  func(n int, seen *request) reply // instead of replies, for the n-th request from 0
	seen    []*request
	unseen  int // requests of which no byte arrived and that are no attempts
}

// will sets the replies to come.
func (u *upstream) will(replies ...reply) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.replies = replies
}

func (u *upstream) count() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.seen)
}

// request returns the n-th request from 0.
func (u *upstream) request(n int) request {
	u.mu.Lock()
	defer u.mu.Unlock()
	return *u.seen[n]
}

func (u *upstream) next(r *http.Request) (reply, *request) {
	u.mu.Lock()
	defer u.mu.Unlock()
	seen := &request{
		method: r.Method, target: r.URL.RequestURI(), host: r.Host,
		header: r.Header.Clone(), length: r.ContentLength, at: time.Now(),
	}
	if seen.host == "" {
		seen.host = r.URL.Host
	}
	u.seen = append(u.seen, seen)
	if u.choose != nil {
		return u.choose(len(u.seen)-1, seen), seen
	}
	if len(u.replies) == 0 {
		return reply{}, seen
	}
	re := u.replies[0]
	if len(u.replies) > 1 {
		u.replies = u.replies[1:]
	}
	if re.dead {
		u.unseen++
	}
	return re, seen
}

// RoundTrip plays the next reply.
func (u *upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	re, seen := u.next(r)
	ctx := r.Context()
	trace := httptrace.ContextClientTrace(ctx)
	if re.noConn {
		if err := sleep(ctx, re.after); err != nil {
			return nil, err
		}
		return nil, re.fails
	}
	conn := &countedConn{Conn: sink{}}
	trace.GotConn(httptrace.GotConnInfo{Conn: conn, Reused: re.dead})
	if re.dead {
		return nil, re.fails
	}
	_, _ = conn.Write([]byte("head"))
	sent := make(chan error, 1)
	go func() { sent <- u.receive(r, conn, seen) }()
	if err := re.play(ctx, sent); err != nil {
		return nil, err
	}
	if re.informed != 0 {
		_ = trace.Got1xxResponse(re.informed, nil)
	}
	return re.response(ctx, r), nil
}

// receive takes the request's body in, as the Transport's write loop does.
func (u *upstream) receive(r *http.Request, conn io.Writer, seen *request) error {
	if r.Body == nil {
		return nil
	}
	var body strings.Builder
	_, err := io.Copy(io.MultiWriter(conn, &body), r.Body)
	u.mu.Lock()
	seen.body = body.String()
	u.mu.Unlock()
	_ = r.Body.Close()
	return err
}

// play waits as the reply says. Like the Transport, it returns no error while
// the body is still being read.
func (re *reply) play(ctx context.Context, sent chan error) error {
	var err error
	if !re.early {
		select {
		case err = <-sent:
			sent <- err
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	if err == nil {
		err = sleep(ctx, re.after)
	}
	if err == nil {
		err = re.fails
	}
	if err != nil {
		if broken := <-sent; broken != nil && ctx.Err() == nil {
			err = broken
		}
	}
	return err
}

func (re *reply) response(ctx context.Context, r *http.Request) *http.Response {
	res := &http.Response{
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		StatusCode: re.status, Header: re.header.Clone(), ContentLength: re.length,
	}
	if res.StatusCode == 0 {
		res.StatusCode = http.StatusOK
	}
	if res.Header == nil {
		res.Header = http.Header{}
	}
	if re.length == 0 {
		res.ContentLength = total(re.body)
	}
	res.Body = &script{ctx: ctx, steps: slices.Clone(re.body), closed: re.closed}
	if re.switches != nil {
		res.Body = re.switches
	}
	return res
}

// script is a body that plays its steps until the context ends.
type script struct {
	ctx    context.Context
	steps  []step
	rest   string
	err    error
	closed func()
}

func (s *script) Read(p []byte) (int, error) {
	if s.ctx.Err() != nil {
		return 0, context.Cause(s.ctx)
	}
	for s.rest == "" && s.err == nil {
		if len(s.steps) == 0 {
			s.err = io.EOF
			break
		}
		next := s.steps[0]
		s.steps = s.steps[1:]
		if s.err = sleep(s.ctx, next.after); s.err == nil {
			s.rest, s.err = next.text, next.err
		}
	}
	if s.rest != "" {
		n := copy(p, s.rest)
		s.rest = s.rest[n:]
		if s.rest == "" && s.err == nil && len(s.steps) == 0 {
			return n, io.EOF // with the last bytes, as the Transport does
		}
		return n, nil
	}
	return 0, s.err
}

func (s *script) Close() error {
	if s.closed != nil {
		s.closed()
	}
	return nil
}

// sleep waits; it returns why the context ended if that came first.
func sleep(ctx context.Context, d time.Duration) error {
	if ctx.Err() != nil || d == 0 {
		return context.Cause(ctx)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// sink is a connection into which everything can be written.
type sink struct{ net.Conn }

func (sink) Write(p []byte) (int, error) { return len(p), nil }
