//go:build unix

package http1

import (
	"io"
	"net/http"
	"strings"
	"time"
)

// bare returns a request without a body that net/http's Transport sends once
// only.
func bare(method string) func() *http.Request {
	return func() *http.Request {
		r := newRequest(method, nil)
		switch method {
		case http.MethodPost, http.MethodPut, http.MethodPatch:
		default:
			r.Body, r.TransferEncoding = onceOnly{}, []string{"identity"}
		}
		return r
	}
}

// newRequest returns a request whose fields show what a transport adds.
func newRequest(method string, body io.Reader) *http.Request {
	r, err := http.NewRequest(method, "http://upstream.test/a%2Fb?q=1;2", body)
	if err != nil {
		panic(err)
	}
	r.Header.Set("User-Agent", "")
	r.Header.Set("X-Caller", "yes")
	return r
}

// known returns a request whose body's length is known.
func known(method, body string) func() *http.Request {
	return func() *http.Request {
		r := newRequest(method, stream{strings.NewReader(body)})
		r.ContentLength = int64(len(body))
		return r
	}
}

// chunked returns a request whose body's length is not known.
func chunked(method string, body func() io.Reader) func() *http.Request {
	return func() *http.Request {
		r := newRequest(method, stream{body()})
		r.ContentLength = -1
		return r
	}
}

// withTrailer returns a request with a trailer whose value is known only when
// the body has been read.
func withTrailer(body string) func() *http.Request {
	return func() *http.Request {
		r := newRequest(http.MethodPost, nil)
		r.Trailer = http.Header{"X-Sum": nil}
		r.ContentLength = -1
		r.Body = stream{io.MultiReader(strings.NewReader(body), late(func() { r.Trailer.Set("X-Sum", "42") }))}
		return r
	}
}

// late is an empty reader that does something when it is read.
type late func()

func (l late) Read([]byte) (int, error) { l(); return 0, io.EOF }

// slowly gives a reader that takes its time before each piece.
func slowly(d time.Duration, pieces ...string) func() io.Reader {
	return func() io.Reader {
		var all []io.Reader
		for _, p := range pieces {
			all = append(all, late(func() { time.Sleep(d) }), strings.NewReader(p))
		}
		return io.MultiReader(all...)
	}
}

// failing gives a reader that gives s and then fails.
func failing(s string) func() io.Reader {
	return func() io.Reader { return io.MultiReader(strings.NewReader(s), broken{}) }
}

// slowThenFailing gives a reader that gives a byte, and fails after d.
func slowThenFailing(d time.Duration) func() io.Reader {
	return func() io.Reader {
		return io.MultiReader(strings.NewReader("a"), late(func() { time.Sleep(d) }), broken{})
	}
}

// plainly gives a reader of s.
func plainly(s string) func() io.Reader { return func() io.Reader { return strings.NewReader(s) } }

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errUnreadable }

// changed returns a request that is bare but for a change.
func changed(by func(*http.Request)) func() *http.Request {
	return func() *http.Request {
		r := bare("GET")()
		by(r)
		return r
	}
}

// sized returns a request that says its body has n bytes.
func sized(n int64, body func() io.Reader) func() *http.Request {
	return func() *http.Request {
		r := newRequest("POST", stream{body()})
		r.ContentLength = n
		return r
	}
}
