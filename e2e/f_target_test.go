package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// wrapped is a dependency with everything switched on that wraps requests and
// answers: retries, stale copies, a limit on bodies, an access log.
const wrapped = base + `
dependencies:
  - name: a
    listen: $A
    upstream: http://$U
    max_request_bytes: 1GiB
    retry: {max_retries: 2, backoff: {base: 1ms, max: 1ms}}
    fallback: [{stale: {max_age: 10m}}]
`

// head returns the request line and the header lines of a request as it came,
// the latter sorted.
func head(x *exchange) (line string, fields []string) {
	text, _, _ := strings.Cut(x.raw(), "\r\n\r\n")
	lines := strings.Split(text, "\r\n")
	slices.Sort(lines[1:])
	return lines[0], lines[1:]
}

// What happened: the proxy asked for gzip in its caller's name and unpacked
// the answer, so that neither length nor ETag fitted what arrived.
// Right: nothing is asked for that the caller did not ask for, and the answer
// goes through as it is.
func TestF2_SilentGunzip(t *testing.T) {
	t.Parallel()
	const zipped = "\x1f\x8b\x08\x00 not even whole"
	u := newUpstream(t, func(x *exchange) {
		x.respond(http.StatusOK, zipped, "Content-Encoding: gzip", `ETag: "z1"`, "Content-Type: text/plain")
	})
	s := start(t, wrapped, u)
	c := s.dial(t, "A")
	for i := range 2 {
		c.get(t, "/x")
		r := c.response(http.MethodGet)
		if r.status != http.StatusOK || r.body != zipped || r.header.Get("Content-Encoding") != "gzip" ||
			r.header.Get("Content-Length") != "19" || r.header.Get("ETag") != `"z1"` {
			t.Errorf("got %v with %v", r, r.header)
		}
		if _, fields := head(u.exchange(t, i+1)); len(fields) != 1 {
			t.Errorf("the upstream saw %q, want Host alone", fields)
		}
	}
}

// targets are request-targets that a rewriting proxy would change.
var targets = []string{
	"/a/%2F/b//c/../d?x=1;y=2&z=%zz&e=", "/", "//", "//a", "/x?", "/x??", "/?/../", "/?%", "/./a/..", "/a;b=c;d?;", "/%41%c3%a9",
	"/x?a=b&a=c&&", "/x?" + strings.Repeat("p&", 11_000), "/a|b^c{d}\"<>`\\", "/x?q=|^{}\"<>`\\", "/%2e%2e/%2E", "/a:b@c", "/x#y",
}

// What happened: encoded slashes, double slashes, dots and semicolons were
// "cleaned", so that callers got a redirect or another resource.
// Right: the target arrives byte for byte, after the upstream's own path.
func TestF3_TargetRewritten(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, ok)
	s := start(t, base+`
dependencies:
  - {name: a, listen: $A, upstream: "http://$U"}
  - {name: below, listen: $BELOW, upstream: "http://$U/b%2Fase/", routes: [{match: {path: /x}, timeout: 5s}, {match: {path_prefix: /a}, timeout: 5s}]}
`, u)
	n := 0
	for port, prefix := range map[string]string{"A": "", "BELOW": "/b%2Fase"} {
		c := s.dial(t, port)
		for _, target := range targets {
			c.get(t, target)
			if r := c.response(http.MethodGet); r.status != http.StatusOK {
				t.Errorf("%.80s got %v", target, r)
			}
			n++
			if line, _ := head(u.exchange(t, n)); line != "GET "+prefix+target+" HTTP/1.1" {
				t.Errorf("%.80s became %.80q", target, line)
			}
		}
	}
}

// What happened: a caller that speaks HTTP/2 put a space into its target, which
// went as it was into the request line of HTTP/1.1, and ended the target there.
// Right: 400; nothing reaches the upstream.
func TestF3_SpaceInTheTarget(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, ok)
	s := start(t, base+`
dependencies:
  - {name: a, listen: $A, upstream: "http://$U", protocol: http1}
`, u)
	h2c := s.speaker(t, "h2c")
	req, err := http.NewRequest(http.MethodGet, s.url("A")+"/x", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.URL.RawQuery = "a HTTP/1.0"
	if res, body := s.exchangeOver(t, h2c, req); res.StatusCode != http.StatusBadRequest || res.ProtoMajor != 2 || !strings.Contains(body, "%20") {
		t.Errorf("got %s %d %s, want 400", res.Proto, res.StatusCode, body)
	}
	if n := u.requests(); n != 0 {
		t.Errorf("%d requests reached the upstream, want none", n)
	}
}

// What happened: a proxy believed the host in the target, or in Host, and sent
// calls elsewhere.
// Right: whatever the caller names, the configured upstream gets the call in
// origin form; Host is the upstream's unless preserve_host says otherwise, and
// then the host that the caller named (RFC 9112 §3.2.2).
func TestF4_CallerNamesAnotherHost(t *testing.T) {
	t.Parallel()
	elsewhere := newUpstream(t, ok)
	u := newUpstream(t, ok)
	s := start(t, base+`
dependencies:
  - {name: own, listen: $OWN, upstream: "http://$U"}
  - {name: kept, listen: $KEPT, upstream: "http://$U", preserve_host: true}
`, u)
	for _, c := range []struct{ target, host, line, kept string }{
		{"/x", "app.test:1", "/x", "app.test:1"},
		{"http://" + elsewhere.addr + "/a//b%2F?x;y", "app.test", "/a//b%2F?x;y", elsewhere.addr},
		{"http://elsewhere.test", "app.test", "/", "elsewhere.test"},
		{"http://elsewhere.test?q", "app.test", "/?q", "elsewhere.test"},
		{"https://user:pass@elsewhere.test:8443/x", "elsewhere.test:8443", "/x", "elsewhere.test:8443"},
	} {
		for port, host := range map[string]string{"OWN": u.addr, "KEPT": c.kept} {
			raw := s.dial(t, port)
			seen := u.requests()
			raw.send(t, "GET "+c.target+" HTTP/1.1\r\nHost: "+c.host+"\r\n\r\n")
			if r := raw.response(http.MethodGet); r.status != http.StatusOK {
				t.Errorf("%s to %s got %v", c.target, port, r)
				continue
			}
			line, fields := head(u.exchange(t, seen+1))
			if line != "GET "+c.line+" HTTP/1.1" || !slices.Equal(fields, []string{"Host: " + host}) {
				t.Errorf("%s with Host %s to %s: the upstream saw %q %q, want %s and Host %s", c.target, c.host, port, line, fields, c.line, host)
			}
		}
	}
	seen := u.requests()
	for _, text := range []string{
		"CONNECT " + elsewhere.addr + " HTTP/1.1\r\nHost: " + elsewhere.addr + "\r\n\r\n",
		"CONNECT /x HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n\r\n",
		"GET / HTTP/1.1\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
		"GET elsewhere HTTP/1.1\r\nHost: a.test\r\n\r\n",
	} {
		raw := s.dial(t, "OWN")
		raw.send(t, text)
		if r := raw.response(http.MethodGet); r.status != http.StatusBadRequest {
			t.Errorf("%q got %v, want 400", text, r)
		}
	}
	if u.requests() != seen || elsewhere.requests() != 0 {
		t.Errorf("%d refused requests reached the upstream, %d another host", u.requests()-seen, elsewhere.requests())
	}
}

// What happened: identity headers were dropped or forged by naming them in
// Connection, and headers were invented.
// Right: what a connection is said to need goes no further, nothing is added,
// and everything else arrives as it was.
func TestF5_HopByHopHeaders(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(x *exchange) {
		x.respond(http.StatusOK, "ok", "Connection: x-hop", "Connection: keep-alive", "X-Hop: 1", "Keep-Alive: timeout=5", "Proxy-Authenticate: Basic", "Proxy-Connection: x",
			"X-Kept: 1", "X-Kept: 2", "Server: u", "Via: 1.1 other", "Upgrade: h2")
	})
	s := start(t, wrapped, u)
	for i, c := range []struct{ sent, want []string }{
		{nil, nil},
		{
			[]string{
				"Connection:", "Connection: X-Forwarded-For, X-App", "X-App: 1", "X-Forwarded-For: 1.2.3.4", "TE: trailers", "Keep-Alive: 5",
				"Proxy-Connection: x", "X-Kept: 1",
			},
			[]string{"Te: trailers", "X-Kept: 1"},
		},
		{
			[]string{"X-Forwarded-For: 1.2.3.4", "X-Forwarded-For: 5.6.7.8", "Forwarded: for=1.2.3.4", "X-Forwarded-Host: h", "X-Forwarded-Proto: https", "Via: 1.0 fred"},
			[]string{"Forwarded: for=1.2.3.4", "Via: 1.0 fred", "X-Forwarded-For: 1.2.3.4", "X-Forwarded-For: 5.6.7.8", "X-Forwarded-Host: h", "X-Forwarded-Proto: https"},
		},
		{
			[]string{"Connection: close, authorization", "Authorization: x", "Accept-Encoding: br", "User-Agent: app", "Cookie: a=b", "Cookie: c=d", "X-Empty:"},
			[]string{"Accept-Encoding: br", "Cookie: a=b", "Cookie: c=d", "User-Agent: app", "X-Empty: "},
		},
		{[]string{"Connection: host, content-length", "User-Agent:"}, nil},
	} {
		raw := s.dial(t, "A")
		raw.get(t, "/x", c.sent...)
		r := raw.response(http.MethodGet)
		for _, name := range []string{"X-Hop", "Keep-Alive", "Proxy-Connection", "Upgrade"} {
			if v := r.header.Get(name); v != "" {
				t.Errorf("%q: the answer's %s: %s came through", c.sent, name, v)
			}
		}
		if got := strings.Join(r.header["X-Kept"], ","); r.status != http.StatusOK || got != "1,2" || r.header.Get("Server") != "u" || r.header.Get("Via") != "1.1 other" {
			t.Errorf("%q: got %v with %v", c.sent, r, r.header)
		}
		_, fields := head(u.exchange(t, i+1))
		want := append([]string{"Host: " + u.addr}, c.want...)
		slices.Sort(want)
		if !slices.Equal(fields, want) {
			t.Errorf("%q: the upstream saw %q, want %q", c.sent, fields, want)
		}
	}
}
