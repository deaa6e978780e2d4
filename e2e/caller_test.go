package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// result is what a caller got.
type result struct {
	status int // 0 without an answer
	header http.Header
	body   string
	err    error // of the transport: no answer, or one that broke off
	sent   time.Time
	took   time.Duration // from sending to the last byte or the error
	first  time.Duration // from sending to the response headers
}

func (r result) String() string {
	return fmt.Sprintf("status %d, body %q, error %v, after %s", r.status, r.body, r.err, r.took.Round(time.Millisecond))
}

// reason returns the "reason" of the sidecar's own answer, or "".
func (r result) reason() string {
	var problem struct{ Reason string }
	_ = json.Unmarshal([]byte(r.body), &problem)
	return problem.Reason
}

// newClient returns a client that adds nothing, follows no proxy and keeps its
// connections.
func newClient() *http.Client {
	return &http.Client{
		Timeout:       3 * patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 1000},
	}
}

// do makes one call to the listener that a word of the configuration names.
// Header lines are written as "Name: value".
func (s *sidecar) do(ctx context.Context, method, port, path string, body io.Reader, lines ...string) result {
	r := result{sent: time.Now()}
	req, err := http.NewRequestWithContext(ctx, method, s.url(port)+path, body)
	if err != nil {
		return result{err: err}
	}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ":")
		req.Header.Add(name, strings.TrimSpace(value))
	}
	res, err := s.client.Do(req)
	r.first = time.Since(r.sent)
	if err == nil {
		defer res.Body.Close()
		r.status, r.header = res.StatusCode, res.Header
		var text []byte
		text, err = io.ReadAll(res.Body)
		r.body = string(text)
	}
	r.err, r.took = err, time.Since(r.sent)
	return r
}

// get makes a GET call.
func (s *sidecar) get(port, path string, lines ...string) result {
	return s.do(context.Background(), http.MethodGet, port, path, nil, lines...)
}

// abandon makes a GET call and leaves after a time.
func (s *sidecar) abandon(port, path string, after time.Duration) result {
	ctx, cancel := context.WithTimeout(context.Background(), after)
	defer cancel()
	return s.do(ctx, http.MethodGet, port, path, nil)
}

// url returns the address behind a word of the configuration as a URL.
func (s *sidecar) url(port string) string { return "http://" + s.addresses[port] }

// rawCaller is a caller that writes its bytes itself.
type rawCaller struct {
	conn net.Conn
	in   *bufio.Reader
	sent time.Time // of the last send
}

// dial connects to a listener. The connection ends with the test.
func (s *sidecar) dial(t *testing.T, port string) *rawCaller {
	t.Helper()
	c, err := net.Dial("tcp", s.addresses[port])
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.conns = append(s.conns, c)
	s.mu.Unlock()
	_ = c.SetDeadline(time.Now().Add(3 * patience))
	return &rawCaller{conn: c, in: bufio.NewReader(c)}
}

// send writes bytes as they are.
func (c *rawCaller) send(t *testing.T, text string) {
	t.Helper()
	c.sent = time.Now()
	if _, err := io.WriteString(c.conn, text); err != nil {
		t.Fatalf("sending: %v", err)
	}
}

// get sends a GET request.
func (c *rawCaller) get(t *testing.T, path string, lines ...string) {
	t.Helper()
	c.send(t, fmt.Sprintf("GET %s HTTP/1.1\r\nHost: a.test\r\n%s\r\n", path, headerLines(lines)))
}

// response reads the answer to a request of the given method.
func (c *rawCaller) response(method string) result {
	r := result{sent: c.sent}
	res, err := http.ReadResponse(c.in, &http.Request{Method: method})
	r.first = time.Since(c.sent)
	if err == nil {
		defer res.Body.Close()
		r.status, r.header = res.StatusCode, res.Header
		var text []byte
		text, err = io.ReadAll(res.Body)
		r.body = string(text)
	}
	r.err, r.took = err, time.Since(c.sent)
	return r
}

// leave closes the connection, as a caller does that gives up.
func (c *rawCaller) leave() { _ = c.conn.Close() }

// reset ends the connection with a TCP reset.
func (c *rawCaller) reset() {
	if tcp, ok := c.conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.conn.Close()
}
