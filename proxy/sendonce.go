package proxy

import (
	"io"
	"net/http"
	"strings"
)

// sendOnce changes a request without a body so that net/http's HTTP/1.1
// transport cannot send it a second time on its own. It repeats idempotent
// requests whose kept-alive connection died, which would be an attempt that
// nobody decided; it does so only where it can rebuild the body, so an empty
// body that is not [http.NoBody] stops it. "identity" keeps that body from
// being framed: the request goes out exactly as without one.
//
// In HTTP/2 an empty body would be seen, as a frame of its own. What is
// repeated there is only what the upstream has said it did not process
// (RFC 9113 §8.7), and it is counted: see [attempt.gotConn].
func sendOnce(r *http.Request) *http.Request {
	if r.Body != nil && r.Body != http.NoBody {
		return r
	}
	switch r.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch:
		// These say Content-Length: 0, and are repeated only with an
		// Idempotency-Key, which the Transport looks up by its canonical name.
		r.Body = nil
		hideIdempotencyKey(r)
		return r
	}
	r.Body = emptyBody{}
	r.TransferEncoding = []string{"identity"}
	return r
}

// hideIdempotencyKey writes the key's name in lower case. Names of fields are
// case-insensitive (RFC 9110 §5.1), the Transport's look-up is not.
func hideIdempotencyKey(r *http.Request) {
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		if v, ok := r.Header[name]; ok {
			r.Header = r.Header.Clone()
			delete(r.Header, name)
			r.Header[strings.ToLower(name)] = v
		}
	}
}

// emptyBody is a body of no bytes that is not [http.NoBody].
type emptyBody struct{}

func (emptyBody) Read([]byte) (int, error) { return 0, io.EOF }
func (emptyBody) Close() error             { return nil }

// WriteTo saves the Transport a buffer of 32 KiB for every request.
func (emptyBody) WriteTo(io.Writer) (int64, error) { return 0, nil }
