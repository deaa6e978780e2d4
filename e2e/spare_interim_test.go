package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

// responses reads answers up to the first that is not interim, and returns the
// interim ones and that.
func (c *rawCaller) responses(t *testing.T, method string) (interim []*http.Response, final result) {
	t.Helper()
	for {
		r, err := http.ReadResponse(c.in, &http.Request{Method: method})
		if err != nil {
			t.Fatalf("after %d interim responses: %v", len(interim), err)
		}
		if r.StatusCode < 200 {
			interim = append(interim, r)
			continue
		}
		text, err := io.ReadAll(r.Body)
		r.Body.Close()
		return interim, result{status: r.StatusCode, header: r.Header, body: string(text), err: err, sent: c.sent, took: time.Since(c.sent)}
	}
}

// What happened: the fields of the upstream's connection went on with a 103
// (golang/go#81319), or its hints showed up in the answer.
// Right: a 103 passes with its own fields alone, over HTTP/1.1 and h2c.
func TestSpareEarlyHints(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(x *exchange) {
		x.head(103, "Link: </a.css>; rel=preload", "Link: </b.css>; rel=preload", "X-Own: yes",
			"Connection: X-Hop, Keep-Alive", "X-Hop: 1", "Keep-Alive: timeout=5", "Proxy-Connection: close", "Upgrade: x", "TE: trailers")
		x.head(103, "Link: </c.css>; rel=preload")
		if x.delay(200 * time.Millisecond) {
			x.respond(http.StatusOK, "ok")
		}
	})
	s := start(t, one+"    protocol: http1\n", u)
	want := []http.Header{
		{"Link": {"</a.css>; rel=preload", "</b.css>; rel=preload"}, "X-Own": {"yes"}},
		{"Link": {"</c.css>; rel=preload"}},
	}

	c := s.dial(t, "A")
	for range 2 { // on one connection
		c.get(t, "/")
		hints, r := c.responses(t, http.MethodGet)
		var got []http.Header
		for _, h := range hints {
			got = append(got, h.Header)
		}
		if !reflect.DeepEqual(got, want) || r.body != "ok" || r.header.Get("Link") != "" || r.header.Get("X-Own") != "" {
			t.Errorf("hints %v, want %v; then %v, %v", got, want, r, r.header)
		}
	}

	h2c := &http.Transport{Protocols: new(http.Protocols)}
	h2c.Protocols.SetUnencryptedHTTP2(true)
	defer h2c.CloseIdleConnections()
	var mu sync.Mutex
	var got []http.Header
	var early time.Duration
	sent := time.Now()
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, http.Header(h))
		early = time.Since(sent)
		return nil
	}})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url("A")+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := h2c.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(res.Body)
	res.Body.Close()
	mu.Lock()
	defer mu.Unlock()
	if !reflect.DeepEqual(got, want) || string(text) != "ok" || err != nil || res.Header.Get("Link") != "" || res.ProtoMajor != 2 {
		t.Errorf("over %s: hints %v, want %v; then %q, %v, %v", res.Proto, got, want, text, err, res.Header)
	}
	wantWithin(t, "hints before the answer", early, tolerance)
}

// What happened: hints of an attempt that failed went out before the answer of
// the next, and told the caller to fetch what is not there.
// Right: with retries on, nothing of a failed attempt is seen: neither before
// the next attempt's answer nor before a fallback.
func TestSpareHintsOfAFailedTry(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(x *exchange) {
		good := x.n%2 == 0 && !strings.HasPrefix(x.req.URL.Path, "/always")
		x.head(103, fmt.Sprintf("Link: </%v.css>", good))
		switch {
		case good:
			x.respond(http.StatusOK, "hello")
		case x.req.URL.Path == "/closes":
			x.close()
		case x.req.URL.Path == "/hangs":
			x.hang()
		default:
			x.respond(http.StatusServiceUnavailable, "bad")
		}
	})
	s := start(t, eager+`
dependencies:
  - {name: a, listen: $A, upstream: http://$U}
  - name: b
    listen: $B
    upstream: http://$U
    retry: {budget: {ratio: 0, min_per_second: 0}}
    fallback: [{static: {body: hello}}]
`, u)
	c := s.dial(t, "A")
	for _, path := range []string{"/fails", "/closes", "/hangs"} {
		c.get(t, path)
		hints, r := c.responses(t, http.MethodGet)
		if len(hints) != 1 || hints[0].Header.Get("Link") != "</true.css>" || r.body != "hello" {
			t.Errorf("%s: %d hints, %v; want the last attempt's", path, len(hints), r)
		}
	}
	// The budget denies every retry: the first attempt is the last.
	c = s.dial(t, "B")
	c.get(t, "/always")
	if hints, r := c.responses(t, http.MethodGet); len(hints) != 0 || r.body != "hello" {
		t.Errorf("before a fallback: %d hints, %v; want none", len(hints), r)
	}
}

// What happened: an upstream refused an upload that its caller held back for
// 100 Continue, and the next request on that connection could not be read
// (golang/go#67555).
// Right: the refusal passes, the body is not asked for, and whatever the
// caller sends then is no request; the next call works on both sides.
func TestSpareExpectRefused(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(x *exchange) {
		if x.req.Method == http.MethodPost {
			x.respond(http.StatusUnauthorized, "who?", "X-Own: yes")
			return
		}
		x.respond(http.StatusOK, x.req.URL.Path)
	})
	s := start(t, eager+`
dependencies:
  - {name: a, listen: $A, upstream: http://$U, retry: {max_retries: 0}}
  - {name: b, listen: $B, upstream: http://$U}
`, u)
	const smuggled = "GET /quit HTTP/1.1\r\nHost: a.test\r\n\r\n"
	for _, port := range []string{"A", "B"} {
		for _, framing := range []string{fmt.Sprintf("Content-Length: %d", len(smuggled)), "Transfer-Encoding: chunked"} {
			for _, sends := range []bool{false, true} {
				name := fmt.Sprintf("%s, %s, sends the body: %v", port, framing, sends)
				c := s.dial(t, port)
				c.send(t, "POST /upload HTTP/1.1\r\nHost: a.test\r\nExpect: 100-continue\r\n"+framing+"\r\n\r\n")
				interim, r := c.responses(t, http.MethodPost)
				if len(interim) != 0 || r.status != http.StatusUnauthorized || r.body != "who?" || r.header.Get("X-Own") != "yes" {
					t.Errorf("%s: %d interim, %v", name, len(interim), r)
				}
				wantWithin(t, "a refusal in place of 100 Continue", r.took, tolerance)
				if sends {
					_, _ = io.WriteString(c.conn, smuggled)
				}
				// The connection is either closed or good.
				if _, err := io.WriteString(c.conn, "GET /next HTTP/1.1\r\nHost: a.test\r\n\r\n"); err == nil && !sends {
					if r := c.response(http.MethodGet); r.err == nil && r.body != "/next" {
						t.Errorf("%s: the next call on the connection: %v", name, r)
					}
				}
				c.leave()
				for range 3 { // on every connection that the sidecar kept
					if r := s.get(port, "/later"); r.status != http.StatusOK || r.body != "/later" {
						t.Errorf("%s: a later call: %v", name, r)
					}
				}
			}
		}
	}
	for n := range u.requests() {
		if x := u.exchange(t, n+1); x.req.URL.Path == "/quit" {
			t.Errorf("a body became a request: %q", x.raw())
		}
	}
}

// What happened: a proxy said 100 Continue on its own, so the upload was sent
// to an upstream that did not want it; or it never said it.
// Right: 100 Continue comes once, when the upstream has asked for the body.
func TestSpareExpectPasses(t *testing.T) {
	t.Parallel()
	const wait = 300 * time.Millisecond
	u := newUpstream(t, func(x *exchange) {
		if x.req.Header.Get("Expect") == "" {
			x.respond(http.StatusInternalServerError, "no Expect")
			return
		}
		if x.delay(wait) {
			x.head(http.StatusContinue)
			body, _ := x.body()
			x.respond(http.StatusOK, string(body))
		}
	})
	s := start(t, eager+`
dependencies:
  - {name: a, listen: $A, upstream: http://$U, retry: {max_retries: 0}}
  - {name: b, listen: $B, upstream: http://$U}
`, u)
	for _, port := range []string{"A", "B"} {
		c := s.dial(t, port)
		for range 2 {
			c.send(t, "PUT /upload HTTP/1.1\r\nHost: a.test\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
			r, err := http.ReadResponse(c.in, nil)
			if err != nil || r.StatusCode != http.StatusContinue {
				t.Fatalf("%s: %v, %v, want 100", port, r, err)
			}
			wantTook(t, "100 Continue", time.Since(c.sent), wait)
			c.send(t, "hello")
			more, final := c.responses(t, http.MethodPut)
			if len(more) != 0 || final.status != http.StatusOK || final.body != "hello" {
				t.Errorf("%s: %d interim after the first, %v", port, len(more), final)
			}
		}
		c.leave()
		// An upstream that is to wait for the body gets it in the end, too.
		req, err := http.NewRequestWithContext(context.Background(), http.MethodPut, s.url(port)+"/upload", strings.NewReader("hello"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Expect", "100-continue")
		res, err := s.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != http.StatusOK || string(text) != "hello" {
			t.Errorf("%s: without waiting: %d %q", port, res.StatusCode, text)
		}
	}
}
