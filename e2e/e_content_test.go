package e2e

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
)

// zipped returns a text as gzip codes it.
func zipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return b.String()
}

// What happened: callers got bytes that they could not decode, or a page in a
// language that they had not asked for, because the answer named no Vary.
// Right: a copy goes to those alone who list its coding and its language, and
// with Vary each of several variants to its own callers.
func TestE7_WhatACallerCanRead(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(x *exchange) {
		asked := x.req.Header
		switch x.req.URL.Path {
		case "/gzip":
			x.leaving(http.StatusOK, zipped("hello"), "Content-Encoding: gzip")
		case "/both":
			x.leaving(http.StatusOK, zipped("hello"), "Content-Encoding: gzip, br")
		case "/de":
			x.leaving(http.StatusOK, "hallo", "Content-Language: de")
		case "/en-US":
			x.leaving(http.StatusOK, "hello", "Content-Language: en-US, fr")
		case "/vary":
			if strings.Contains(asked.Get("Accept-Encoding"), "gzip") {
				x.leaving(http.StatusOK, zipped("hello"), "Content-Encoding: gzip", "Vary: Accept-Encoding, Accept-Language", "Content-Language: "+asked.Get("Accept-Language"))
				return
			}
			x.leaving(http.StatusOK, "plain "+asked.Get("Accept-Language"), "Vary: Accept-Encoding", "Vary: Accept-Language")
		}
	})
	s := start(t, stale+`
dependencies:
  - {name: a, listen: $A, upstream: "http://$U"}
`, u)
	for _, path := range []string{"/gzip", "/both", "/de", "/en-US"} {
		s.get("A", path, "Accept-Encoding: gzip, br", "Accept-Language: de, en-US")
	}
	s.get("A", "/vary", "Accept-Language: de", "Accept-Encoding: gzip")
	s.get("A", "/vary", "Accept-Language: de")
	s.get("A", "/vary", "Accept-Language: en")
	s.wantMetric(t, 7, "sidecar_cache_stores_total")
	s.force(t, "a", "open")
	code, speak := "Accept-Encoding: ", "Accept-Language: "
	for _, c := range []struct {
		path, lines string
		body        string // empty for 503
	}{
		{"/gzip", "", ""}, {"/gzip", code + "identity", ""}, {"/gzip", code + "br", ""}, {"/gzip", code + "gzip;q=0", ""}, {"/gzip", code + "br, gzip;q=0.0, *", ""},
		{"/gzip", code, ""}, {"/gzip", code + "gzip", zipped("hello")}, {"/gzip", code + "br;q=1.0, GZIP;q=0.2", zipped("hello")}, {"/gzip", code + "x-gzip", zipped("hello")}, {"/gzip", code + "*", zipped("hello")},
		{"/both", code + "gzip", ""}, {"/both", code + "br", ""}, {"/both", code + "br, gzip", zipped("hello")},
		{"/de", "", "hallo"}, {"/de", speak + "de", "hallo"}, {"/de", speak + "de-CH, en;q=0.5", "hallo"}, {"/de", speak + "en", ""}, {"/de", speak + "en, de;q=0", ""}, {"/de", speak + "en, *;q=0.1", "hallo"}, {"/de", speak + "den", ""},
		{"/en-US", speak + "en", "hello"}, {"/en-US", speak + "fr", "hello"}, {"/en-US", speak + "en-US", "hello"}, {"/en-US", speak + "de", ""},
		{"/vary", speak + "de|" + code + "gzip", zipped("hello")}, {"/vary", speak + "de", "plain de"}, {"/vary", speak + "en", "plain en"},
		{"/vary", speak + "en|" + code + "gzip", ""}, {"/vary", code + "gzip", ""}, {"/vary", "", ""}, {"/vary", speak + "fr", ""},
	} {
		var lines []string
		if c.lines != "" {
			lines = strings.Split(c.lines, "|")
		}
		r := s.get("A", c.path, lines...)
		switch {
		case c.body != "":
			if r.status != http.StatusOK || r.body != c.body || r.header.Get("Sidecar-Degraded") == "" || r.header.Get("Content-Length") != fmt.Sprint(len(c.body)) {
				t.Errorf("%s for %q: %v %v, want the copy of %d bytes", c.path, c.lines, r, r.header, len(c.body))
			}
		case r.status != http.StatusServiceUnavailable || r.reason() != "open":
			t.Errorf("%s for %q: %v, want 503", c.path, c.lines, r)
		}
	}
}

// Right: parts, conditions and HEAD are answered from a copy as from the
// resource, coded or not, and the connection carries the next call.
func TestE8_PartsAndConditionsOfACopy(t *testing.T) {
	t.Parallel()
	const text = "0123456789"
	coded := zipped(strings.Repeat("hello ", 50))
	u := newUpstream(t, func(x *exchange) {
		lines := []string{`ETag: "v1"`, "Last-Modified: Mon, 02 Jan 2023 15:04:05 GMT", "Content-Type: text/x", "X-Kept: yes"}
		switch x.req.URL.Path {
		case "/gzip":
			x.leaving(http.StatusOK, coded, append(lines, "Content-Encoding: gzip")...)
		case "/weak":
			x.leaving(http.StatusOK, text, `ETag: W/"v1"`)
		case "/bare":
			x.leaving(http.StatusOK, text)
		case "/204":
			x.head(http.StatusNoContent, `ETag: "v1"`, "Connection: close")
			x.close()
		case "/203":
			x.leaving(http.StatusNonAuthoritativeInfo, text, lines...)
		default:
			x.leaving(http.StatusOK, text, lines...)
		}
	})
	s := start(t, stale+`
dependencies:
  - {name: a, listen: $A, upstream: "http://$U"}
`, u)
	gzipped := "Accept-Encoding: gzip"
	all := []string{"/text", "/gzip", "/weak", "/bare", "/204", "/203"}
	for _, path := range all {
		s.get("A", path, gzipped)
	}
	s.wantMetric(t, float64(len(all)), "sidecar_cache_stores_total")
	s.force(t, "a", "open")
	match, since := "If-None-Match: ", "If-Modified-Since: Mon, 02 Jan 2023 15:04:05 GMT"
	n := len(coded)
	c := s.dial(t, "A")
	for i, w := range []struct {
		method, path, lines string
		status              int
		body                string
		length, part        string // Content-Length and Content-Range; empty for none
	}{
		{"HEAD", "/text", "", 200, "", "10", ""}, {"GET", "/text", "", 200, text, "10", ""},
		{"GET", "/text", match + `"v1"`, 304, "", "", ""}, {"GET", "/text", match + `"v0", W/"v1"`, 304, "", "", ""}, {"GET", "/text", match + "*", 304, "", "", ""},
		{"HEAD", "/text", match + `"v1"`, 304, "", "", ""}, {"GET", "/text", match + `"v0"`, 200, text, "10", ""}, {"GET", "/text", match + `"v0"|` + since, 200, text, "10", ""},
		{"GET", "/text", since, 304, "", "", ""}, {"GET", "/weak", match + `"v1"`, 304, "", "", ""}, {"GET", "/bare", match + `"v1"`, 200, text, "10", ""}, {"GET", "/bare", since, 200, text, "10", ""},
		{"GET", "/text", "Range: bytes=2-4", 206, "234", "3", "bytes 2-4/10"}, {"GET", "/text", "Range: bytes=8-", 206, "89", "2", "bytes 8-9/10"}, {"GET", "/text", "Range: bytes=-3", 206, "789", "3", "bytes 7-9/10"},
		{"GET", "/text", "Range: bytes=5-100", 206, "56789", "5", "bytes 5-9/10"}, {"GET", "/text", "Range: bytes=10-", 416, "?", "?", "bytes */10"}, {"GET", "/text", "Range: bytes=20-30", 416, "?", "?", "bytes */10"},
		{"GET", "/text", `Range: bytes=2-4|If-Range: "v1"`, 206, "234", "3", "bytes 2-4/10"}, {"GET", "/text", `Range: bytes=2-4|If-Range: "v0"`, 200, text, "10", ""}, {"GET", "/weak", `Range: bytes=2-4|If-Range: W/"v1"`, 200, text, "10", ""},
		{"GET", "/text", `Range: bytes=2-4|` + match + `"v1"`, 304, "", "", ""}, {"HEAD", "/text", "", 200, "", "10", ""},
		{"GET", "/gzip", gzipped, 200, coded, fmt.Sprint(n), ""}, {"HEAD", "/gzip", gzipped, 200, "", fmt.Sprint(n), ""}, {"GET", "/gzip", gzipped + "|" + match + `"v1"`, 304, "", "", ""},
		{"GET", "/gzip", gzipped + "|Range: bytes=1-3", 206, coded[1:4], "3", fmt.Sprintf("bytes 1-3/%d", n)},
		{"GET", "/203", "", 203, text, "10", ""}, {"HEAD", "/203", "", 203, "", "10", ""}, {"GET", "/204", "", 204, "", "", ""}, {"HEAD", "/204", "", 204, "", "", ""},
		{"GET", "/none", match + `"v1"`, 503, "?", "?", ""}, {"GET", "/text", "", 200, text, "10", ""},
	} {
		var lines []string
		if w.lines != "" {
			lines = strings.Split(w.lines, "|")
		}
		c.send(t, fmt.Sprintf("%s %s HTTP/1.1\r\nHost: a.test\r\n%s\r\n", w.method, w.path, headerLines(lines)))
		r := c.response(w.method)
		if r.err != nil || r.status != w.status || w.body != "?" && (r.body != w.body || r.header.Get("Content-Length") != w.length) || r.header.Get("Content-Range") != w.part {
			t.Fatalf("answer %d to %s %s %q: %v %v, want %+v", i+1, w.method, w.path, w.lines, r, r.header, w)
		}
		if w.status != http.StatusServiceUnavailable && (r.header.Get("Sidecar-Degraded") == "" || r.header.Get("Age") == "") {
			t.Errorf("answer %d is not marked: %v", i+1, r.header)
		}
		if w.status == http.StatusNotModified && w.path == "/text" && r.header.Get("ETag") != `"v1"` {
			t.Errorf("answer %d has the ETag %q", i+1, r.header.Get("ETag"))
		}
		if r.header["Transfer-Encoding"] != nil {
			t.Errorf("answer %d: %v", i+1, r.header)
		}
	}
	c.get(t, "/text", "Range: bytes=0-1,5-5,-1")
	wantParts(t, c.response(http.MethodGet), "01", "5", "9")
	c.get(t, "/text", "Range: bytes=0-1,50-60")
	if r := c.response(http.MethodGet); r.status != http.StatusPartialContent || !strings.Contains(r.body, "01") {
		t.Errorf("one range of two that is there: %v", r)
	}
	c.get(t, "/text")
	if r := c.response(http.MethodGet); r.body != text {
		t.Errorf("the last answer: %v", r)
	}
	wantSilence(t, c)
}

// wantParts fails the test unless a result is a multipart answer with the given
// parts.
func wantParts(t *testing.T, r result, want ...string) {
	t.Helper()
	kind, parameters, err := mime.ParseMediaType(r.header.Get("Content-Type"))
	if r.status != http.StatusPartialContent || r.err != nil || err != nil || kind != "multipart/byteranges" || r.header.Get("Content-Length") != fmt.Sprint(len(r.body)) {
		t.Fatalf("several ranges: %v %v", r, r.header)
	}
	parts := multipart.NewReader(strings.NewReader(r.body), parameters["boundary"])
	for i, text := range want {
		p, err := parts.NextPart()
		if err != nil {
			t.Fatalf("part %d: %v", i+1, err)
		}
		got, err := io.ReadAll(p)
		if err != nil || string(got) != text || p.Header.Get("Content-Type") != "text/x" {
			t.Errorf("part %d: %q, %v, %v, want %q", i+1, got, p.Header, err, text)
		}
	}
	if _, err := parts.NextPart(); err != io.EOF {
		t.Errorf("behind the last part came %v", err)
	}
}

// What happened: copies aged although their dependency had just confirmed them,
// or stayed although it had said that the page was gone.
// Right: a 304 to a caller's own condition makes the copy that it speaks of
// young again; a 404 or 410 removes it.
func TestE6_WhatTheDependencySaysOfACopy(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(x *exchange) {
		x.leaving(http.StatusOK, "good", `ETag: "v1"`, "Age: 500", "X-Is: old")
	})
	s := start(t, stale+`
dependencies:
  - {name: a, listen: $A, upstream: "http://$U"}
`, u)
	for _, path := range []string{"/same", "/other", "/404", "/410", "/403"} {
		s.get("A", path)
	}
	s.wantMetric(t, 5, "sidecar_cache_stores_total")
	u.handle(func(x *exchange) {
		status, tag := http.StatusNotModified, `"v1"`
		if _, err := fmt.Sscanf(x.req.URL.Path, "/%d", &status); err == nil {
			x.leaving(status, "no")
			return
		}
		if x.req.URL.Path == "/other" {
			tag = `"v2"`
		}
		x.head(status, "ETag: "+tag, "X-Is: new", "Connection: close")
		x.close()
	})
	for path, tag := range map[string]string{"/same": `"v1"`, "/other": `"v2"`, "/404": "", "/410": "", "/403": ""} {
		if r := s.get("A", path, "If-None-Match: "+tag); r.status == http.StatusOK || r.err != nil {
			t.Fatal(r)
		}
	}
	s.force(t, "a", "open")
	for path, is := range map[string]string{"/same": "new", "/other": "old", "/403": "old"} {
		r := s.get("A", path)
		wantCopy(t, r, "good", "open")
		if young := len(r.header.Get("Age")) < 3; r.header.Get("X-Is") != is || young != (is == "new") {
			t.Errorf("%s has Age %q and is %q, want it %s", path, r.header.Get("Age"), r.header.Get("X-Is"), is)
		}
	}
	for _, path := range []string{"/404", "/410"} {
		if r := s.get("A", path); r.status != http.StatusServiceUnavailable {
			t.Errorf("%s: %v, want 503", path, r)
		}
	}
}
