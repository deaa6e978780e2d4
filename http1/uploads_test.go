//go:build unix

package http1

import (
	"context"
	"net/http"
	"strings"
	"testing"
)

// wireRequests are requests of every kind, by what is odd about them.
var wireRequests = func() map[string]func() *http.Request {
	all := map[string]func() *http.Request{
		"known, empty":        known("POST", ""),
		"unknown, empty":      chunked("POST", plainly("")),
		"trailer":             withTrailer("hello"),
		"shorter than said":   sized(9, plainly("hello")),
		"longer than said":    sized(3, plainly("hello")),
		"unreadable":          chunked("POST", failing("hello")),
		"unreadable, known":   sized(9, failing("hello")),
		"unreadable at once":  chunked("PUT", failing("")),
		"unreadable GET":      chunked("GET", failing("")),
		"slow":                chunked("POST", slowly(10*tick, "a", "b", "c")),
		"slow, known":         sized(3, slowly(10*tick, "a", "b", "c")),
		"slow GET":            chunked("GET", slowly(300*tick, "a", "b")),
		"longer than windows": known("PUT", strings.Repeat("x", 5*window)),
		"long and unknown":    chunked("PUT", plainly(strings.Repeat("x", 5*window))),
		"in memory": func() *http.Request {
			return newRequest("POST", strings.NewReader("hello"))
		},
		"no body": func() *http.Request {
			r := bare("POST")()
			r.Body = http.NoBody
			return r
		},
		"to be closed": changed(func(r *http.Request) { r.Close = true }),
		"to be closed, in its fields": changed(func(r *http.Request) {
			r.Header.Set("Connection", "close")
		}),
		"other host":          changed(func(r *http.Request) { r.Host = "other.test:81" }),
		"bad host":            changed(func(r *http.Request) { r.Host = "a b" }),
		"zone":                changed(func(r *http.Request) { r.Host = "[fe80::1%25en0]:80" }),
		"opaque":              changed(func(r *http.Request) { r.URL.Opaque = "//upstream.test/a/../b" }),
		"control in target":   changed(func(r *http.Request) { r.URL.RawQuery = "a\nb" }),
		"user agent":          changed(func(r *http.Request) { r.Header.Set("User-Agent", "x") }),
		"default user agent":  changed(func(r *http.Request) { r.Header.Del("User-Agent") }),
		"many values":         changed(func(r *http.Request) { r.Header["x-many"] = []string{"1", "2", ""} }),
		"spaces in a value":   changed(func(r *http.Request) { r.Header["X-A"] = []string{"\t a b \t"} }),
		"framing in fields":   changed(func(r *http.Request) { r.Header["Content-Length"] = []string{"7"} }),
		"newline in a value":  changed(func(r *http.Request) { r.Header["X-A"] = []string{"a\r\nb: c"} }),
		"DEL in a value":      changed(func(r *http.Request) { r.Header["X-A"] = []string{"\x7f"} }),
		"UTF-8 in a value":    changed(func(r *http.Request) { r.Header["X-A"] = []string{"ä\xff"} }),
		"space in a name":     changed(func(r *http.Request) { r.Header["X A"] = []string{"1"} }),
		"UTF-8 in a name":     changed(func(r *http.Request) { r.Header["X-Ä"] = []string{"1"} }),
		"empty name":          changed(func(r *http.Request) { r.Header[""] = []string{"1"} }),
		"no header":           changed(func(r *http.Request) { r.Header = http.Header{} }),
		"no method":           changed(func(r *http.Request) { r.Method = "" }),
		"method of two words": changed(func(r *http.Request) { r.Method = "GET /other" }),
		"own method":          changed(func(r *http.Request) { r.Method = "x-Own!" }),
		"bad trailer": changed(func(r *http.Request) {
			r.Body, r.ContentLength, r.TransferEncoding = stream{strings.NewReader("hello")}, -1, nil
			r.Trailer = http.Header{"X-A": {"a\nb"}}
		}),
		"trailer of framing": changed(func(r *http.Request) {
			r.Body, r.ContentLength, r.TransferEncoding = stream{strings.NewReader("hello")}, -1, nil
			r.Trailer = http.Header{"Content-Length": {"1"}}
		}),
		"over": changed(func(r *http.Request) {
			ctx, cancel := context.WithCancel(r.Context())
			cancel()
			*r = *r.WithContext(ctx)
		}),
	}
	for _, method := range []string{"GET", "HEAD", "DELETE", "POST", "PUT", "PATCH", "OPTIONS"} {
		all[method] = bare(method)
		all[method+" known"] = known(method, "a body")
		all[method+" unknown"] = chunked(method, plainly("a body"))
		all[method+" unknown, empty"] = chunked(method, plainly(""))
	}
	return all
}()

// A request is written as net/http's Transport writes it, or refused as there,
// and leaves its connection in the same state.
func TestRequestsAreThoseOfNetHTTP(t *testing.T) {
	for name, first := range wireRequests {
		for upstream, scripts := range map[string][]script{
			"answers":                 twice(say(ok)),
			"answers and closes":      twice(say("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello"), hangUp),
			"closes without answer":   {{request, hangUp}, {request, say(ok)}},
			"resets without answer":   {{request, reset}, {request, say(ok)}},
			"never answers":           {{request, pause(2 * patience)}, {request, say(ok)}},
			"answers slowly":          twice(inPieces(ok, 3)),
			"takes no connection":     {},
			"takes one":               {{request, hangUp}},
			"answers the head, early": {{head, say(ok), settle, request, say(ok)}, {request, say(ok)}},
		} {
			if d := same(t, scripts, first, bare("GET")); d != "" {
				t.Errorf("%s, upstream %s (-net/http +http1):\n%s", name, upstream, d)
			}
		}
	}
}
