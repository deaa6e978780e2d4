package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// exchange is one request and what becomes of it. Its handler's goroutine owns
// it, but for what stands below mu.
type exchange struct {
	u       *upstream
	n       int // from 1, over all connections
	req     *http.Request
	conn    net.Conn
	in      *inbox
	start   time.Time
	handler func(*exchange)
	said    bool // something was written
	over    bool // the connection ends with this exchange

	mu     sync.Mutex // guards everything below
	end    time.Time  // when its handler returned; zero before
	record string     // the request as it came, once the next one is awaited
}

func (x *exchange) run() {
	x.handler(x)
	x.mu.Lock()
	x.end = time.Now()
	x.mu.Unlock()
	x.over = x.over || !x.said
}

// endedAt returns when the exchange ended for the peer: when its handler
// returned or its connection was closed; the present while it runs.
func (x *exchange) endedAt() time.Time {
	x.mu.Lock()
	end := x.end
	x.mu.Unlock()
	if end.IsZero() {
		end = time.Now()
	}
	if gone := x.goneAt(); !gone.IsZero() && gone.Before(end) {
		return gone
	}
	return end
}

// goneAt returns when the connection was closed, by the peer unless the handler
// did so itself; zero while it is open.
func (x *exchange) goneAt() time.Time { return x.in.endedAt() }

// gone is closed when the connection has been closed.
func (x *exchange) gone() <-chan struct{} { return x.in.ended }

// raw returns what came for this request, byte for byte, up to recordSize, and
// anything that was sent behind it.
func (x *exchange) raw() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.record != "" {
		return x.record
	}
	return x.in.recorded()
}

// part begins the record of the next request on the connection.
func (x *exchange) part() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.record = x.in.recorded()
	x.in.next()
}

// delay waits; false if the peer left or the upstream ended meanwhile.
func (x *exchange) delay(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-x.gone():
	case <-x.u.ends:
	}
	return false
}

// hang waits until the peer leaves or the upstream ends.
func (x *exchange) hang() {
	select {
	case <-x.gone():
	case <-x.u.ends:
	}
}

// until waits for a channel to be closed; false as for delay.
func (x *exchange) until(released <-chan struct{}) bool {
	select {
	case <-released:
		return true
	case <-x.gone():
	case <-x.u.ends:
	}
	return false
}

// body reads the request body to its end.
func (x *exchange) body() ([]byte, error) { return io.ReadAll(x.req.Body) }

// head sends a status line and header lines such as "Content-Length: 5".
func (x *exchange) head(status int, lines ...string) {
	x.write(fmt.Sprintf("HTTP/1.1 %d %s\r\n%s\r\n", status, http.StatusText(status), headerLines(lines)))
}

// respond sends a whole answer.
func (x *exchange) respond(status int, body string, lines ...string) {
	x.write(fmt.Sprintf("HTTP/1.1 %d %s\r\n%sContent-Length: %d\r\n\r\n%s",
		status, http.StatusText(status), headerLines(lines), len(body), body))
}

func headerLines(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\r\n") + "\r\n"
}

// chunk sends one chunk of a body whose head said Transfer-Encoding: chunked.
// An empty one ends the body.
func (x *exchange) chunk(text string) { x.write(fmt.Sprintf("%x\r\n%s\r\n", len(text), text)) }

// write sends bytes as they are; false if the peer did not take them.
func (x *exchange) write(text string) bool {
	x.said = true
	_ = x.conn.SetWriteDeadline(time.Now().Add(patience))
	_, err := io.WriteString(x.conn, text)
	x.over = x.over || err != nil
	return err == nil
}

// close ends the connection in an orderly way.
func (x *exchange) close() {
	x.over = true
	_ = x.conn.Close()
}

// reset ends the connection with a TCP reset.
func (x *exchange) reset() {
	if tcp, ok := x.conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	x.close()
}
