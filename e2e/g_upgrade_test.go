package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// upgrades is a dependency with all that wraps answers, whose calls may take
// half a second: what is upgraded outlives that.
const upgrades = base + `
log: {level: debug, format: json, access: all}
dependencies:
  - name: a
    listen: $A
    upstream: http://$U
    timeout: 500ms
    idle_timeout: 10s
    breaker: {slow_call: {after: 300ms, ratio: 0.5}}
    retry: {max_retries: 2, backoff: {base: 1ms, max: 1ms}}
    fallback: [{stale: {max_age: 10m}}, {static: {body: FB}}]
`

// switches agrees to an upgrade and hands the connection to a conversation.
func switches(talk func(x *exchange, in *bufio.Reader)) func(*exchange) {
	return func(x *exchange) {
		x.over = true
		x.head(http.StatusSwitchingProtocols, "Connection: Upgrade", "Upgrade: "+x.req.Header.Get("Upgrade"), "X-Agreed: 1")
		talk(x, bufio.NewReader(x.in))
	}
}

// echoes sends every line back until the peer says no more.
func echoes(x *exchange, in *bufio.Reader) {
	for {
		line, err := in.ReadString('\n')
		if err != nil || !x.write(line) {
			return
		}
	}
}

// upgrade asks for a protocol, with what is said before the answer, and wants
// it agreed to.
func (c *rawCaller) upgrade(t *testing.T, protocol, early string) {
	t.Helper()
	c.send(t, "GET /up HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: "+protocol+"\r\nSec-WebSocket-Key: k\r\n\r\n"+early)
	res, err := http.ReadResponse(c.in, &http.Request{Method: http.MethodGet})
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != http.StatusSwitchingProtocols || res.Header.Get("Upgrade") != protocol || res.Header.Get("X-Agreed") != "1" {
		t.Fatalf("the upgrade got %s with %v", res.Status, res.Header)
	}
}

// echo sends lines and wants them back.
func (c *rawCaller) echo(t *testing.T, lines int) {
	t.Helper()
	for i := range lines {
		want := fmt.Sprintf("%d %s\n", i, strings.Repeat("x", i*37))
		c.send(t, want)
		if got, err := c.in.ReadString('\n'); got != want {
			t.Fatalf("line %d came back as %.40q (%v)", i, got, err)
		}
	}
}

// What happened: an upgrade was refused, or panicked, because a wrapper around
// the answer could not hand out the connection.
// Right: with every wrapper on, frames pass both ways; when one side drops, so
// is the other within 200 ms; the permit is held as long as the connection.
func TestG2_UpgradeUnderWrappers(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, switches(echoes))
	s := start(t, upgrades, u)
	for name, drop := range map[string]func(c *rawCaller, x *exchange){
		"the caller leaves":     func(c *rawCaller, _ *exchange) { c.leave() },
		"the caller resets":     func(c *rawCaller, _ *exchange) { c.reset() },
		"the upstream closes":   func(_ *rawCaller, x *exchange) { _ = x.conn.Close() },
		"the upstream resets":   func(_ *rawCaller, x *exchange) { (&rawCaller{conn: x.conn}).reset() },
		"both, after the other": func(c *rawCaller, x *exchange) { _ = x.conn.Close(); c.leave() },
	} {
		t.Run(name, func(t *testing.T) {
			seen := u.requests()
			c := s.dial(t, "A")
			c.upgrade(t, "websocket", "")
			x := u.exchange(t, seen+1)
			c.echo(t, 50)
			time.Sleep(600 * time.Millisecond) // longer than timeout
			c.echo(t, 50)
			if n := s.api(t, "a").Bulkhead.InUse; n != 1 {
				t.Errorf("%d permits in use, want 1", n)
			}
			dropped := time.Now()
			drop(c, x)
			if strings.HasPrefix(name, "the caller") {
				<-x.gone()
			} else if rest, err := io.ReadAll(c.in); len(rest) > 0 {
				t.Errorf("%q came (%v)", rest, err)
			}
			wantWithin(t, "dropping the other side", time.Since(dropped), 200*time.Millisecond)
			c.leave()
			s.wantIdle(t, "a", 500*time.Millisecond)
		})
	}
	s.wantOutcomes(t, "a", map[string]float64{"ok": 5})
	s.wantMetric(t, 0, "sidecar_request_duration_seconds_count", "dependency", "a")
	if b := s.api(t, "a").Breaker; b.Window.Failures+b.Window.Slow != 0 || b.Window.Calls != 5 {
		t.Errorf("the breaker counted %+v", b.Window)
	}
}

// Right, too: an upstream that refuses the upgrade is quoted, body and all,
// and the connection goes on in HTTP.
func TestG2_UpgradeRefused(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(x *exchange) { x.respond(http.StatusForbidden, "not you", "X-Why: because") })
	s := start(t, upgrades, u)
	c := s.dial(t, "A")
	for range 2 {
		c.get(t, "/up", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: k")
		if r := c.response(http.MethodGet); r.status != http.StatusForbidden || r.body != "not you" || r.header.Get("X-Why") != "because" {
			t.Errorf("got %v with %v", r, r.header)
		}
	}
	c.get(t, "/plain")
	if r := c.response(http.MethodGet); r.status != http.StatusForbidden {
		t.Errorf("the connection is not usable: %v", r)
	}
	if x := u.exchange(t, 1).req; x.Header.Get("Upgrade") != "websocket" || x.Header.Get("Connection") != "Upgrade" || x.Header.Get("Sec-WebSocket-Key") != "k" {
		t.Errorf("the upstream saw %v", x.Header)
	}
	s.wantIdle(t, "a", 500*time.Millisecond)
}

// What happened: what a caller said right behind its request, before the
// upgrade was agreed to, was dropped.
// Right: it is the first that the upstream hears after its 101, and what the
// upstream says with the 101 reaches the caller.
func TestG2_WordsBesideTheUpgrade(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(x *exchange) {
		x.over = true
		x.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\nX-Agreed: 1\r\n\r\nwelcome\n")
		echoes(x, bufio.NewReader(x.in))
	})
	s := start(t, upgrades, u)
	c := s.dial(t, "A")
	c.upgrade(t, "echo", "first\nsecond\n")
	for _, want := range []string{"welcome\n", "first\n", "second\n"} {
		_ = c.conn.SetReadDeadline(time.Now().Add(3 * time.Second))
		if got, err := c.in.ReadString('\n'); got != want {
			t.Fatalf("got %q (%v), want %q", got, err, want)
		}
	}
}

// What happened: the end of one direction ended the other, and an answer that
// was still to come was lost.
// Right: each side can say that it has said all, and still listen.
func TestG2_HalfClose(t *testing.T) {
	t.Parallel()
	last := make(chan int, 1)
	u := newUpstream(t, switches(func(x *exchange, in *bufio.Reader) {
		if x.req.Header.Get("Upgrade") == "caller-first" {
			all, _ := io.ReadAll(in)
			time.Sleep(300 * time.Millisecond)
			x.write(fmt.Sprintf("%d bytes", len(all)))
			return
		}
		x.write("that is all")
		if tcp, ok := x.conn.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
		all, _ := io.ReadAll(in)
		last <- len(all)
	}))
	s := start(t, upgrades, u)
	c := s.dial(t, "A")
	c.upgrade(t, "caller-first", "")
	c.send(t, strings.Repeat("x", 100_000))
	_ = c.conn.(*net.TCPConn).CloseWrite()
	if all, err := io.ReadAll(c.in); string(all) != "100000 bytes" {
		t.Errorf("after the caller's half-close it got %q (%v)", all, err)
	}
	c = s.dial(t, "A")
	c.upgrade(t, "upstream-first", "")
	if all, err := io.ReadAll(c.in); string(all) != "that is all" {
		t.Errorf("before the upstream's half-close the caller got %q (%v)", all, err)
	}
	time.Sleep(300 * time.Millisecond)
	c.send(t, strings.Repeat("x", 100_000))
	_ = c.conn.(*net.TCPConn).CloseWrite()
	if n := <-last; n != 100_000 {
		t.Errorf("after its half-close the upstream got %d bytes", n)
	}
	s.wantIdle(t, "a", time.Second)
}

// What happened: dead streams held their permits for ever, or live ones were
// cut.
// Right: idle_timeout ends what is silent in both directions, and nothing else.
func TestG5_SilentUpgrade(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, switches(func(x *exchange, in *bufio.Reader) {
		switch x.req.Header.Get("Upgrade") {
		case "listens":
			_, _ = io.Copy(io.Discard, in)
		case "talks":
			for x.delay(400*time.Millisecond) && x.write("x") {
			}
		default:
			x.hang()
		}
	}))
	s := start(t, strings.Replace(upgrades, "idle_timeout: 10s", "idle_timeout: 1500ms", 1), u)
	silent, talking, listening := s.dial(t, "A"), s.dial(t, "A"), s.dial(t, "A")
	began := time.Now()
	silent.upgrade(t, "silent", "")
	talking.upgrade(t, "talks", "")
	listening.upgrade(t, "listens", "")
	go func() {
		for range 6 {
			time.Sleep(400 * time.Millisecond)
			_, _ = io.WriteString(listening.conn, "x")
		}
	}()
	if rest, _ := io.ReadAll(silent.in); len(rest) > 0 {
		t.Errorf("silence brought %q", rest)
	}
	wantTook(t, "ending the silent connection", time.Since(began), 1500*time.Millisecond)
	s.wantOutcomes(t, "a", map[string]float64{"failed": 1})
	if lines := s.logs("msg", "call", "outcome", "failed", "reason", "timeout", "status", "101"); len(lines) != 1 {
		t.Errorf("%d lines tell of it", len(lines))
	}
	time.Sleep(time.Until(began.Add(2300 * time.Millisecond)))
	if n := s.api(t, "a").Bulkhead.InUse; n != 2 {
		t.Errorf("%d connections are left, want the two on which something is said", n)
	}
	if rest, _ := io.ReadAll(listening.in); len(rest) > 0 {
		t.Errorf("the listener said %q", rest)
	}
	wantTook(t, "ending the one whose caller fell silent", time.Since(began), 3900*time.Millisecond)
	talking.leave()
	s.wantIdle(t, "a", time.Second)
}
