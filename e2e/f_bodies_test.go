package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// answered reads one answer off a raw connection, with its framing and its
// trailers.
func answered(t *testing.T, in *bufio.Reader, method string) (res *http.Response, body string) {
	t.Helper()
	res, err := http.ReadResponse(in, &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(text)
}

// What happened: trailers were lost, those not announced above all, or made up
// into headers.
// Right: they follow the body in both directions, announced or not, also
// behind an empty body.
func TestF6_TrailersLost(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(x *exchange) {
		_, _ = x.body()
		body, lines := "hello", []string{"Transfer-Encoding: chunked"}
		if x.req.URL.Query().Has("announced") {
			lines = append(lines, "Trailer: X-Sum, X-More")
		}
		x.head(http.StatusOK, lines...)
		if x.req.URL.Path != "/empty" {
			x.chunk(body)
		}
		x.write("0\r\nX-Sum: 1\r\nX-More: 2\r\nX-More: 3\r\n\r\n")
	})
	s := start(t, wrapped, u)
	n := 0
	for _, path := range []string{"/full", "/empty"} {
		for _, announced := range []bool{true, false} {
			for range 2 {
				c := s.dial(t, "A")
				query, trailer, body := "", "", "5\r\nhello\r\n"
				if announced {
					query, trailer = "?announced", "Trailer: X-Sum, X-More\r\n"
				}
				if path == "/empty" {
					body = ""
				}
				c.send(t, "PUT "+path+query+" HTTP/1.1\r\nHost: a.test\r\nTE: trailers\r\n"+trailer+
					"Transfer-Encoding: chunked\r\n\r\n"+body+"0\r\nX-Sum: 1\r\nX-More: 2\r\nX-More: 3\r\n\r\n")
				res, got := answered(t, c.in, http.MethodPut)
				if want := strings.Repeat("hello", strings.Count(path, "full")); got != want || fmt.Sprint(res.Trailer) != "map[X-More:[2 3] X-Sum:[1]]" {
					t.Errorf("%s, announced=%v: got %q with the trailers %v", path, announced, got, res.Trailer)
				}
				if res.Header.Get("X-Sum") != "" {
					t.Errorf("%s, announced=%v: a trailer became a header: %v", path, announced, res.Header)
				}
				n++
				if x := u.exchange(t, n); fmt.Sprint(x.req.Trailer) != "map[X-More:[2 3] X-Sum:[1]]" {
					t.Errorf("%s, announced=%v: the upstream saw the trailers %v in\n%s", path, announced, x.req.Trailer, x.raw())
				}
			}
		}
	}
}

// What happened: a trailer said something about the framing of the message
// before it, and someone believed it.
// Right: what must not stand in a trailer (RFC 9110 §6.5.1) goes no further.
func TestF6_ForbiddenTrailers(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(x *exchange) {
		_, _ = x.body()
		x.respond(http.StatusOK, "ok")
	})
	s := start(t, wrapped, u)
	c := s.dial(t, "A")
	c.send(t, "PUT / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"+
		"Content-Length: 5\r\nTransfer-Encoding: chunked\r\nHost: evil.test\r\nTrailer: X\r\nConnection: close\r\nX-Good: 1\r\n\r\n")
	answered(t, c.in, http.MethodPut)
	x := u.exchange(t, 1)
	_, rest, _ := strings.Cut(x.raw(), "\r\n\r\n")
	for _, name := range []string{"Content-Length", "Transfer-Encoding", "Host", "Trailer", "Connection"} {
		if strings.Contains(rest, name+":") {
			t.Errorf("%s stands in the trailer: %q", name, rest)
		}
	}
}

// What happened: an upstream refused an upload early, and the caller, who was
// still sending, saw a reset instead of the refusal; or the rest of the upload
// was taken for the next request.
// Right: the refusal goes through at once; the connection is used no more; a
// breaker has nothing against a 413.
func TestF7_EarlyRefusal(t *testing.T) {
	t.Parallel()
	early := map[string]func(x *exchange){
		"keeps reading": func(x *exchange) {
			x.respond(http.StatusRequestEntityTooLarge, "too large", "Connection: close")
			_, _ = x.body()
		},
		"stops reading": func(x *exchange) {
			x.respond(http.StatusRequestEntityTooLarge, "too large", "Connection: close")
			x.hang()
		},
		"says half-way": func(x *exchange) {
			_, _ = io.CopyN(io.Discard, x.req.Body, 64<<10)
			x.respond(http.StatusRequestEntityTooLarge, "too large")
			x.hang()
		},
		"closes": func(x *exchange) {
			x.respond(http.StatusRequestEntityTooLarge, "too large", "Connection: close")
			if tcp, ok := x.conn.(interface{ CloseWrite() error }); ok {
				_ = tcp.CloseWrite()
			}
			x.delay(time.Second)
		},
	}
	for name, handler := range early {
		for _, framing := range []string{"Content-Length: 100000000", "Transfer-Encoding: chunked"} {
			t.Run(name+", "+framing, func(t *testing.T) {
				t.Parallel()
				u := newUpstream(t, handler)
				s := start(t, wrapped, u)
				c := s.dial(t, "A")
				c.send(t, "PUT /up HTTP/1.1\r\nHost: a.test\r\n"+framing+"\r\n\r\n")
				ends := make(chan struct{})
				go func() { // goes on sending whatever comes
					defer close(ends)
					piece := strings.Repeat("x", 16<<10)
					if strings.HasPrefix(framing, "Transfer") {
						piece = fmt.Sprintf("%x\r\n%s\r\n", len(piece), piece)
					}
					for {
						if _, err := io.WriteString(c.conn, piece); err != nil {
							return
						}
					}
				}()
				r := c.response(http.MethodPut)
				if r.status != http.StatusRequestEntityTooLarge || r.body != "too large" || r.err != nil {
					t.Errorf("got %v, want the upstream's 413", r)
				}
				wantWithin(t, "the refusal", r.took, time.Second)
				<-ends // the sidecar closes the connection
				u.handle(ok)
				for range 3 {
					if r := s.get("A", "/next"); r.status != http.StatusOK {
						t.Errorf("the next call: %v", r)
					}
				}
				if n := u.requests(); n != 4 {
					t.Errorf("the upstream saw %d requests, want 4", n)
				}
				if b := s.api(t, "a").Breaker.Window; b.Failures != 0 || b.Calls < 3 {
					t.Errorf("the breaker counted %+v", b)
				}
				s.wantMetric(t, 0, "sidecar_retries_total")
			})
		}
	}
}

// What happened: answers without a body got a length of 0, or were framed
// anew, and the next answer on the connection could not be read.
// Right: what describes a body that is not sent stays as it was.
func TestF8_AnswersWithoutABody(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(x *exchange) {
		switch {
		case x.req.Method == http.MethodHead && x.req.URL.Path == "/unknown":
			x.head(http.StatusOK)
		case x.req.Method == http.MethodHead && x.req.URL.Path == "/chunked":
			x.head(http.StatusOK, "Transfer-Encoding: chunked")
		case x.req.Method == http.MethodHead:
			x.head(http.StatusOK, "Content-Length: 12345", `ETag: "h"`)
		case x.req.URL.Path == "/304":
			x.head(http.StatusNotModified, `ETag: "v"`)
		case x.req.URL.Path == "/204":
			x.head(http.StatusNoContent)
		case x.req.URL.Path == "/205":
			x.head(http.StatusResetContent, "Content-Length: 0")
		default:
			x.respond(http.StatusOK, "whole")
		}
	})
	s := start(t, wrapped, u)
	type want struct {
		method, path string
		status       int
		length, etag string
	}
	wants := []want{
		{"HEAD", "/x", 200, "12345", `"h"`},
		{"GET", "/304", 304, "", `"v"`},
		{"HEAD", "/unknown", 200, "", ""},
		{"GET", "/204", 204, "", ""},
		{"HEAD", "/chunked", 200, "", ""},
		{"DELETE", "/204", 204, "", ""},
		{"GET", "/205", 205, "0", ""},
		{"GET", "/x", 200, "5", ""},
	}
	c := s.dial(t, "A")
	for range 2 {
		pipeline := ""
		for _, w := range wants {
			pipeline += w.method + " " + w.path + " HTTP/1.1\r\nHost: a.test\r\n\r\n"
		}
		c.send(t, pipeline)
		for _, w := range wants {
			res, body := answered(t, c.in, w.method)
			if res.StatusCode != w.status || res.Header.Get("Content-Length") != w.length || res.Header.Get("ETag") != w.etag ||
				(body != "") != (w.length == "5") || (res.TransferEncoding != nil && w.path != "/chunked") || res.Close {
				t.Errorf("%s %s: %d %v %v %q, want %+v", w.method, w.path, res.StatusCode, res.Header, res.TransferEncoding, body, w)
			}
		}
	}
	wantSilence(t, c)
}

// What happened: a wrapper around a body changed its framing: a GET got a
// length, an empty POST lost its own, a chunked upload was collected.
// Right: each message is framed as it came. Of a body that is empty a method
// that usually has one says so, another does not (RFC 9110 §8.6).
func TestF9_FramingChanged(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(x *exchange) {
		_, _ = x.body()
		switch x.req.URL.Path {
		case "/chunked":
			x.head(http.StatusOK, "Transfer-Encoding: chunked")
			x.chunk("hello")
			x.chunk("")
		case "/empty":
			x.head(http.StatusOK, "Content-Length: 0")
		case "/close":
			x.head(http.StatusOK)
			x.write("hello")
			x.close()
		default:
			x.respond(http.StatusOK, "hello")
		}
	})
	s := start(t, wrapped, u)
	for i, c := range []struct{ methods, sent, body, want string }{
		{"GET HEAD DELETE OPTIONS PROPFIND", "", "", ""},
		{"POST PUT PATCH", "Content-Length: 0\r\n", "", "Content-Length: 0"},
		{"POST PUT PATCH GET DELETE PROPFIND", "Content-Length: 5\r\n", "hello", "Content-Length: 5"},
		{"POST PUT PATCH GET DELETE PROPFIND", "Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n", "Transfer-Encoding: chunked"},
		{"POST PUT PATCH", "Transfer-Encoding: chunked\r\n", "0\r\n\r\n", "Transfer-Encoding: chunked"},
	} {
		for method := range strings.FieldsSeq(c.methods) {
			seen := u.requests()
			raw := s.dial(t, "A")
			raw.send(t, method+" /x HTTP/1.1\r\nHost: a.test\r\n"+c.sent+"\r\n"+c.body)
			if r := raw.response(method); r.status != http.StatusOK {
				t.Errorf("%d: %s got %v", i, method, r)
				continue
			}
			x := u.exchange(t, seen+1)
			_, fields := head(x)
			_, body, _ := strings.Cut(x.raw(), "\r\n\r\n")
			fields = slices.DeleteFunc(fields, func(line string) bool { return line == "Host: "+u.addr })
			if strings.Join(fields, "|") != c.want || body != c.body {
				t.Errorf("%d: %s: the upstream saw %q and %q, want %q and %q", i, method, fields, body, c.want, c.body)
			}
		}
	}
	for path, want := range map[string]string{"/x": "5 []", "/chunked": "-1 [chunked]", "/empty": "0 []", "/close": "-1 [chunked]"} {
		c := s.dial(t, "A")
		c.get(t, path)
		res, body := answered(t, c.in, http.MethodGet)
		if got := fmt.Sprint(res.ContentLength, " ", res.TransferEncoding); got != want || body != "hello" && path != "/empty" || res.Header["Content-Type"] != nil {
			t.Errorf("%s: length and coding %s, body %q, Content-Type %q; want %s and no type", path, got, body, res.Header["Content-Type"], want)
		}
	}
}
