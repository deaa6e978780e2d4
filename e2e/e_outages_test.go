package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// What happened: a fallback answered writes, and callers took orders and
// charges for accepted that nobody had seen.
// Right: neither a copy nor a fixed body stands in for a write, whatever went
// wrong; its failure is told as it is.
func TestE2_FallbackForAWrite(t *testing.T) {
	t.Parallel()
	w := patients(t, "fallback: [{stale: {max_age: 10m}}, {static: {body: FB}}]", "", parting(http.StatusOK, "good"))
	w.each(t, func(t *testing.T, p patient) { p.get(p.port, "/page") })
	w.stored(t, 1)
	w.each(t, func(t *testing.T, p patient) {
		p.sicken(t)
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"} {
			p.wantNothing(t, method, p.call(method, "/page"))
		}
		wantCopy(t, p.call(http.MethodGet, "/page"), "good", p.reason)
	})
}

// What happened: copies outlived the outage: callers saw old pages, marked as
// such or not, from a dependency that was well again.
// Right: the first call that the dependency answers gets that answer alone,
// and it is the copy of the next outage.
func TestE3_CopyOutlivesTheOutage(t *testing.T) {
	t.Parallel()
	w := patients(t, copies, "", parting(http.StatusOK, "good"))
	w.each(t, func(t *testing.T, p patient) { p.get(p.port, "/page") })
	w.stored(t, 1)
	w.each(t, func(t *testing.T, p patient) {
		t.Run("sick", func(t *testing.T) {
			p.sicken(t)
			wantCopy(t, p.call(http.MethodGet, "/page"), "good", p.reason)
		})
		p.u.refuse()
		p.u.handle(parting(http.StatusOK, "newer"))
		p.u.accept(t)
		switch p.reason {
		case "open":
			p.force(t, p.name, "auto")
		case "probing", "queue_full", "queue_timeout":
			p.wantIdle(t, p.name, 2*time.Second)
		}
		var r result
		seen := p.u.requests()
		if !poll(2*time.Second, func() bool {
			r = p.get(p.port, "/page")
			return p.u.requests() > seen
		}) || r.status != http.StatusOK || r.body != "newer" {
			t.Fatalf("well again: %v", r)
		}
		for _, name := range []string{"Age", "Sidecar-Degraded", "Cache-Status", "Proxy-Status"} {
			if v, found := r.header[name]; found {
				t.Errorf("well again, but %s: %q", name, v)
			}
		}
		p.u.refuse()
		var again result
		if !poll(2*time.Second, func() bool {
			again = p.get(p.port, "/page")
			return again.header.Get("Sidecar-Degraded") != ""
		}) || again.body != "newer" {
			t.Errorf("in the next outage: %v, want the copy %q", again, "newer")
		}
	})
}

// Right, for every failure (see [TestE4_StaleBodyDoubled]): the body once and
// byte-equal, one Content-Length, none of the connection's headers, an Age that
// counts, and a mark.
func TestE4_EveryFailure(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("0123456789abcde\n", 3<<20/16)
	bodies := map[string]string{"/small": "AB", "/large": large, "/empty": ""}
	w := patients(t, copies, "cache: {max_object_bytes: 4MiB, max_bytes: 128MiB}", func(x *exchange) {
		hop := []string{"Connection: keep-alive, X-Hop", "X-Hop: 1", "Keep-Alive: timeout=5", "X-Kept: yes", "X-Kept: twice", "Age: 7"}
		if x.req.URL.Path != "/large" {
			x.respond(http.StatusOK, bodies[x.req.URL.Path], hop...)
			return
		}
		x.head(http.StatusOK, append(hop, "Transfer-Encoding: chunked")...)
		for piece := range slices.Chunk([]byte(large), 100_000) {
			x.chunk(string(piece))
		}
		x.chunk("")
	})
	begun := time.Now()
	w.each(t, func(t *testing.T, p patient) {
		for path, body := range bodies {
			if r := p.get(p.port, path); r.body != body || r.err != nil {
				t.Fatalf("GET %s: %d bytes, %v", path, len(r.body), r.err)
			}
		}
	})
	primed := time.Now()
	w.stored(t, len(bodies))
	w.each(t, func(t *testing.T, p patient) {
		p.sicken(t)
		for path, body := range bodies {
			for range 2 {
				least := 7 + int(time.Since(primed).Seconds())
				r := p.getRaw(t, p.port, path, p.line)
				if r.status != http.StatusOK || r.body != body || r.err != nil {
					t.Errorf("the copy of %s: status %d, %d bytes, %v, want %d bytes", path, r.status, len(r.body), r.err, len(body))
				}
				if n := r.header["Content-Length"]; len(n) != 1 || n[0] != strconv.Itoa(len(body)) {
					t.Errorf("%s has Content-Length %q", path, n)
				}
				for _, name := range []string{"X-Hop", "Keep-Alive", "Transfer-Encoding"} {
					if v, found := r.header[name]; found {
						t.Errorf("%s has %s: %q", path, name, v)
					}
				}
				age, err := strconv.Atoi(r.header.Get("Age"))
				if most := 8 + int(time.Since(begun).Seconds()); err != nil || len(r.header["Age"]) != 1 || age < least || age > most {
					t.Errorf("%s has Age %q, want %d to %d", path, r.header["Age"], least, most)
				}
				if kept := r.header["X-Kept"]; len(kept) != 2 || !strings.HasPrefix(r.header.Get("Sidecar-Degraded"), "stale; reason="+p.reason+"; age=") {
					t.Errorf("%s has the headers %v", path, r.header)
				}
			}
		}
	})
}

// Right, for every failure (see [TestE7_WrongVariant]): no fitting copy means
// that the failure is told, and nothing of another's answer.
func TestE7_EveryFailure(t *testing.T) {
	t.Parallel()
	w := patients(t, copies, "", func(x *exchange) {
		asked := x.req.Header
		switch x.req.URL.Path {
		case "/zip":
			x.leaving(http.StatusOK, "zipped", "Content-Encoding: gzip", "Vary: Accept-Encoding")
		case "/lang":
			x.leaving(http.StatusOK, asked.Get("Accept-Language"), "Vary: accept-language")
		case "/any":
			x.leaving(http.StatusOK, "any", "Vary: *")
		default:
			x.leaving(http.StatusOK, x.req.URL.RawQuery)
		}
	})
	right := []struct{ path, line, body string }{
		{"/zip", "Accept-Encoding: gzip", "zipped"}, {"/lang", "Accept-Language: de", "de"}, {"/x?id=1", "X-None: 1", "id=1"},
	}
	w.each(t, func(_ *testing.T, p patient) {
		for _, r := range right {
			p.get(p.port, r.path, r.line)
		}
		p.get(p.port, "/any")
	})
	w.stored(t, len(right))
	w.wantMetric(t, float64(len(ailments)), "sidecar_cache_skips_total", "reason", "vary")
	w.each(t, func(t *testing.T, p patient) {
		p.sicken(t)
		for _, r := range right {
			wantCopy(t, p.call(http.MethodGet, r.path, r.line), r.body, p.reason)
		}
		for _, c := range [][]string{
			{"/zip"}, {"/zip", "Accept-Encoding: identity"}, {"/zip", "Accept-Encoding: br"}, {"/lang"}, {"/lang", "Accept-Language: en"},
			{"/x?id=2"}, {"/x"}, {"/x?"}, {"/X?id=1"}, {"/any"},
		} {
			p.wantNothing(t, fmt.Sprint(c), p.call(http.MethodGet, c[0], c[1:]...))
		}
	})
}

// Right, for every failure (see [TestE8_BodiesWhereNoneIsAllowed]): no byte of
// a body for HEAD, 204 and 304, and the next answer on the connection parses.
func TestE8_EveryFailure(t *testing.T) {
	t.Parallel()
	w := patients(t, "fallback: [{stale: {max_age: 10m}}, {static: {body: FB}}], routes: [{match: {path: /empty}, fallback: [{static: {status: 204}}]}]", "", func(x *exchange) {
		x.leaving(http.StatusOK, "hello", `ETag: "v1"`)
	})
	w.each(t, func(_ *testing.T, p patient) { p.get(p.port, "/x") })
	w.stored(t, 1)
	wants := []struct {
		method, path, line string
		status             int
		body, length       string
	}{
		{"HEAD", "/x", "", 200, "", "5"}, {"GET", "/x", `If-None-Match: "v1"`, 304, "", ""}, {"GET", "/x", "", 200, "hello", "5"},
		{"HEAD", "/none", "", 200, "", "2"}, {"GET", "/none", "", 200, "FB", "2"}, {"HEAD", "/empty", "", 204, "", ""}, {"GET", "/empty", "", 204, "", ""},
		{"HEAD", "/x", `If-None-Match: "v1"`, 304, "", ""}, {"GET", "/x", "Range: bytes=0-1", 206, "he", "2"}, {"GET", "/x", "", 200, "hello", "5"},
	}
	w.each(t, func(t *testing.T, p patient) {
		p.sicken(t)
		var requests bytes.Buffer
		for _, want := range wants {
			fmt.Fprintf(&requests, "%s %s HTTP/1.1\r\nHost: a.test\r\n%s\r\n", want.method, want.path, fields(want.line, p.line))
		}
		c := p.dial(t, p.port)
		c.send(t, requests.String())
		for i, want := range wants {
			r := c.response(want.method)
			if r.err != nil || r.status != want.status || r.body != want.body || r.header.Get("Content-Length") != want.length || r.header.Get("Sidecar-Degraded") == "" {
				t.Fatalf("answer %d: %v %v, want %+v", i+1, r, r.header, want)
			}
		}
		wantSilence(t, c)
	})
}

// fields writes those header lines that are not empty.
func fields(lines ...string) string {
	return headerLines(slices.DeleteFunc(lines, func(line string) bool { return line == "" }))
}

// What happened: a probe was never let through while copies answered everyone,
// so a dependency that was well again stayed cut off.
// Right: the first call after the cooldown is the probe, though a copy could
// answer it; meanwhile all others get theirs; and the circuit closes.
func TestE3_CopiesStarveTheProbe(t *testing.T) {
	t.Parallel()
	const rate = 50
	u := newUpstream(t, ok)
	s := start(t, stale+`
dependencies:
  - {name: a, listen: $A, upstream: "http://$U", attempt_timeout: 5s, timeout: 5s, bulkhead: {max_concurrent: 50}}
`, u)
	s.get("A", "/page")
	s.wantMetric(t, 1, "sidecar_cache_stores_total")
	u.handle(fails(http.StatusInternalServerError))
	load := startLoad(rate, 6*time.Second, func(i int) result {
		switch i % 4 {
		case 0:
			return s.do(context.Background(), http.MethodHead, "A", "/page", nil)
		case 1:
			return s.get("A", "/page", "Range: bytes=0-0")
		}
		return s.get("A", "/page")
	})
	s.awaitState(t, "a", "open", 2*time.Second)
	// Probes that fail, then a slow one that succeeds.
	if !poll(3*time.Second, func() bool { return s.api(t, "a").Breaker.OpenedTotal > 1 }) {
		t.Error("no probe was made while the dependency was sick")
	}
	u.handle(func(x *exchange) {
		if x.delay(300 * time.Millisecond) {
			x.respond(http.StatusOK, "well")
		}
	})
	well := time.Now()
	s.awaitState(t, "a", "closed", 1500*time.Millisecond+slack)
	t.Logf("closed %s after the dependency was well", round(time.Since(well)))
	time.Sleep(500 * time.Millisecond)
	load.stop()
	all := load.wait()
	reasons := map[string]int{}
	for _, r := range all {
		if r.err != nil || r.status != http.StatusOK && r.status != http.StatusPartialContent {
			t.Fatalf("a call in the outage: %v", r)
		}
		_, reason, _ := strings.Cut(r.header.Get("Sidecar-Degraded"), "reason=")
		reason, _, _ = strings.Cut(reason, ";")
		reasons[reason]++
	}
	if reasons["status"] < 4 || reasons["open"] < rate || reasons["probing"] < 5 || reasons[""] < 5 {
		t.Errorf("the calls were answered for %v, want each of status, open, probing and (well)", reasons)
	}
	if r := all[len(all)-1]; r.header.Get("Sidecar-Degraded") != "" {
		t.Errorf("the last call: %v %v", r, r.header)
	}
}
