package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// What happened: a call that ended in an unusual way (a panic, an abort, a
// protocol error, a dropped upgrade) kept its permit, until none was left.
// Right: every path gives it back, once: afterwards exactly max_concurrent run.
func TestB5_PermitLostOnAnUnusualEnd(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, unusual)
	s := start(t, one+`
    attempt_timeout: 100ms
    timeout: 250ms
    max_request_bytes: 100B
    breaker: {mode: "off"}
    bulkhead: {max_concurrent: 2, max_waiting: 0}
`, u)
	call := func(text string) func(int) {
		return func(int) {
			c := s.dial(t, "A")
			defer c.leave()
			c.send(t, text)
			if r := c.response(http.MethodGet); r.took > time.Second {
				t.Errorf("no end for a second: %v", r)
			}
		}
	}
	leave := func(text string) func(int) {
		return func(int) {
			seen := u.requests()
			c := s.dial(t, "A")
			c.send(t, text)
			u.await(t, seen+1)
			time.Sleep(10 * time.Millisecond)
			c.reset()
		}
	}
	const host = " HTTP/1.1\r\nHost: a.test\r\n"
	for name, end := range map[string]func(int){
		"reset before the headers":     call("GET /reset" + host + "\r\n"),
		"closed before the headers":    call("GET /close" + host + "\r\n"),
		"no HTTP":                      call("GET /garbage" + host + "\r\n"),
		"headers too large":            call("GET /huge" + host + "\r\n"),
		"reset in the body":            call("GET /half" + host + "\r\n"),
		"a broken chunk":               call("GET /chunk" + host + "\r\n"),
		"attempt timeout":              call("GET /hang" + host + "\r\n"),
		"timeout in the body":          call("GET /stall" + host + "\r\n"),
		"timeout in the body, 1.0":     call("GET /stall HTTP/1.0\r\n\r\n"),
		"an upgrade nobody asked for":  call("GET /upgrade" + host + "\r\n"),
		"body too large":               call("POST /" + host + "Content-Length: 101\r\n\r\n" + strings.Repeat("x", 101)),
		"chunked body too large":       call("POST /" + host + "Transfer-Encoding: chunked\r\n\r\n80\r\n" + strings.Repeat("x", 128) + "\r\n0\r\n\r\n"),
		"a stalled upload":             call("POST /body" + host + "Content-Length: 10\r\n\r\nx"),
		"a broken upload":              call("POST /body" + host + "Transfer-Encoding: chunked\r\n\r\nnonsense\r\n"),
		"caller left before headers":   leave("GET /hang" + host + "\r\n"),
		"caller left in the body":      leave("GET /stall" + host + "\r\n"),
		"caller left in its upload":    leave("POST /body" + host + "Content-Length: 10\r\n\r\nx"),
		"upgrade dropped by caller":    leave("GET /upgrade" + host + "Connection: Upgrade\r\nUpgrade: echo\r\n\r\n"),
		"upgrade dropped by upstream":  call("GET /drop" + host + "Connection: Upgrade\r\nUpgrade: echo\r\n\r\n"),
		"event stream left by caller":  leave("GET /events" + host + "\r\n"),
		"event stream reset by server": call("GET /lost-events" + host + "\r\n"),
	} {
		for i := range 3 { // one more than there are permits
			end(i)
		}
		s.wantIdle(t, "a", 2*time.Second)
		if t.Failed() {
			t.Fatalf("after: %s", name)
		}
	}
	// A caller that reads nothing keeps its permit no longer than timeout.
	c, seen := s.dial(t, "A"), u.requests()
	c.get(t, "/flood")
	u.await(t, seen+1)
	asked := c.sent
	s.wantIdle(t, "a", 2*time.Second)
	wantWithin(t, "ending the call of a caller that does not read", time.Since(asked), 350*time.Millisecond+tolerance)
	u.handle(hang)
	all := together(10, func(int) result { return s.get("A", "/") })
	if ran, refused := len(withStatus(all, 504)), len(withStatus(all, 503)); ran != 2 || refused != 8 {
		t.Errorf("afterwards %d of 10 calls ran and %d were refused, want 2 and 8: %v", ran, refused, all)
	}
}

// unusual answers in the way that the path says.
func unusual(x *exchange) {
	switch x.req.URL.Path {
	case "/reset":
		x.reset()
	case "/close":
		x.close()
	case "/garbage":
		x.write("this is no HTTP\r\n\r\n")
	case "/huge":
		x.head(200, "Content-Length: 0", "X-Huge: "+strings.Repeat("x", 2<<20))
	case "/half":
		x.head(200, "Content-Length: 100")
		x.write("half")
		x.delay(10 * time.Millisecond)
		x.reset()
	case "/chunk":
		x.head(200, "Transfer-Encoding: chunked")
		x.write("zz\r\n")
	case "/stall":
		x.head(200, "Content-Length: 100")
		x.hang()
	case "/upgrade", "/drop":
		x.head(101, "Connection: Upgrade", "Upgrade: echo")
		if x.req.URL.Path == "/upgrade" {
			x.hang()
		}
		x.close()
	case "/events", "/lost-events":
		x.head(200, "Content-Type: text/event-stream")
		x.write("data: x\n\n")
		if x.req.URL.Path == "/events" {
			x.hang()
		}
		x.reset()
	case "/flood":
		x.head(200, "Content-Length: 67108864")
		for part := strings.Repeat("x", 64<<10); x.write(part); {
		}
	case "/body":
		_, _ = x.body()
		x.hang()
	default:
		x.hang()
	}
}
