package proxy

import (
	"io"
	"net/http"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func upstreamAt(raw string) func(*Settings) {
	return func(s *Settings) {
		u, err := url.Parse(raw)
		if err != nil {
			panic(err)
		}
		s.Upstream = u
	}
}

// The target reaches the upstream byte for byte, after the upstream's path.
func TestTarget(t *testing.T) {
	for _, c := range []struct{ base, sent, want string }{
		{"", "/", "/"},
		{"", "/a/%2F/b//c/../d?x=1;y=2&z=%zz&e=", "/a/%2F/b//c/../d?x=1;y=2&z=%zz&e="},
		{"", "/x?", "/x?"},
		{"", "/x??", "/x??"},
		{"", "/x?a?b=/../c", "/x?a?b=/../c"},
		{"", "/a/./b/%2e%2E/%41", "/a/./b/%2e%2E/%41"},
		{"", `/|^{}"<>` + "`", `/|^{}"<>` + "`"},
		{"", "/a;b=c;d", "/a;b=c;d"},
		{"", "/a:b@c", "/a:b@c"},
		{"", "/x#y", "/x#y"},
		{"", "//a//b", "//a//b"},
		{"", "//upstream.internal/x?y", "//upstream.internal/x?y"},
		{"", "///", "///"},
		{"/base", "/", "/base/"},
		{"/base", "/x?y", "/base/x?y"},
		{"/base/", "/x", "/base/x"},
		{"/base", "//x", "/base//x"},
		{"/b%2Fse", "/x", "/b%2Fse/x"},
		{"", "http://elsewhere:8080/x//y?z", "/x//y?z"},
		{"", "http://elsewhere", "/"},
		{"", "http://elsewhere?q", "/?q"},
		{"", `http://user:pass@elsewhere/a"b%2F|c`, `/a"b%2F|c`},
		{"/base", "https://elsewhere/x", "/base/x"},
	} {
		bubble(t, upstreamAt("http://upstream.internal"+c.base), func(r *rig) {
			r.call(caller{target: c.sent}).want(t, 200, "", 0)
			if q := r.up.request(0); q.target != c.want || q.host != "upstream.internal" {
				r.Errorf("base %q, sent %q: the upstream saw %q at %q, want %q", c.base, c.sent, q.target, q.host, c.want)
			}
		})
	}
	bubble(t, upstreamAt("http://upstream.internal/base"), func(r *rig) {
		r.call(caller{method: "OPTIONS", target: "*"}).want(t, 200, "", 0)
		if q := r.up.request(0); q.target != "*" {
			r.Errorf("OPTIONS * became %q", q.target)
		}
	})
}

// The path that is matched, kept and logged is the one that was sent.
func TestLoggedPath(t *testing.T) {
	for sent, want := range map[string]string{
		"/a%2Fb//c?secret": "/a%2Fb//c", "http://h/a%2Fb?secret": "/a%2Fb", "http://h": "/", "//x": "//x",
	} {
		bubble(t, nil, func(r *rig) {
			r.call(caller{target: sent})
			if got := r.lastCall().Path; got != want {
				r.Errorf("%s is logged as %s, want %s", sent, got, want)
			}
		})
	}
}

// Host is the upstream's, unless it is to be preserved.
func TestHost(t *testing.T) {
	for _, c := range []struct {
		preserve bool
		want     string
	}{{false, "upstream.internal:81"}, {true, "app.example:7001"}} {
		bubble(t, both(upstreamAt("http://upstream.internal:81"), func(s *Settings) { s.PreserveHost = c.preserve }), func(r *rig) {
			r.call(caller{host: "app.example:7001"})
			if q := r.up.request(0); q.host != c.want {
				r.Errorf("preserve=%v: Host %s, want %s", c.preserve, q.host, c.want)
			}
		})
	}
}

// Userinfo becomes Basic authorization, whatever the caller sent, and shows
// nowhere.
func TestUserinfo(t *testing.T) {
	bubble(t, upstreamAt("http://me:p%40ss@upstream.internal/base"), func(r *rig) {
		r.call(caller{target: "/x", header: http.Header{"Authorization": {"Bearer theirs"}}})
		q := r.up.request(0)
		want := http.Request{Header: http.Header{}}
		want.SetBasicAuth("me", "p@ss")
		if q.header.Get("Authorization") != want.Header.Get("Authorization") || q.host != "upstream.internal" || q.target != "/base/x" {
			r.Errorf("upstream saw %+v", q)
		}
		if got := r.d.Snapshot().Upstream; got != "http://xxxxx@upstream.internal/base" {
			r.Errorf("shown as %s", got)
		}
	})
	bubble(t, nil, func(r *rig) {
		r.call(caller{header: http.Header{"Authorization": {"Bearer theirs"}}})
		if got := r.up.request(0).header.Get("Authorization"); got != "Bearer theirs" {
			r.Errorf("Authorization: %s", got)
		}
	})
}

// F5: no header is invented, and only hop-by-hop ones are removed.
func TestRequestHeaders(t *testing.T) {
	forwarded := http.Header{
		"Forwarded": {"for=1.2.3.4"}, "X-Forwarded-For": {"1.2.3.4", "5.6.7.8"}, "X-Forwarded-Host": {"h"}, "X-Forwarded-Proto": {"https"},
	}
	for _, c := range []struct {
		name       string
		sent, want http.Header
	}{
		{"none", http.Header{}, http.Header{}},
		{"the app's own", forwarded, forwarded},
		{"ordinary", http.Header{"User-Agent": {"app"}, "X-A": {"1", "2"}, "Accept-Encoding": {"br"}}, http.Header{"User-Agent": {"app"}, "X-A": {"1", "2"}, "Accept-Encoding": {"br"}}},
		{
			"hop by hop",
			http.Header{
				"Connection": {"", "x-forwarded-for, X-App"}, "X-App": {"1"}, "X-Forwarded-For": {"spoof"}, "Keep-Alive": {"1"},
				"Te": {"trailers, gzip"}, "Proxy-Authorization": {"x"}, "Proxy-Connection": {"x"}, "Upgrade": {"x"},
			},
			http.Header{"Te": {"trailers"}},
		},
	} {
		bubble(t, nil, func(r *rig) {
			r.call(caller{header: c.sent})
			got := r.up.request(0).header
			if got.Get("User-Agent") == "" {
				got.Del("User-Agent") // empty keeps net/http from inventing one
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				r.Errorf("%s (-want +got):\n%s", c.name, diff)
			}
		})
	}
}

// Trailers follow the body.
func TestRequestTrailers(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		a := caller{method: "PUT", body: text("x"), length: -1}.dial(r.T)
		a.req.Trailer = http.Header{"X-Sum": nil}
		a.req.Body = trailing{a.req.Body, a.req.Trailer}
		r.made = append(r.made, a)
		var got http.Header
		r.d.current.Load().pool.instead = roundTripperFunc(func(req *http.Request) (*http.Response, error) {
			res, err := r.up.RoundTrip(req)
			got = req.Trailer.Clone()
			return res, err
		})
		a.serve(r.d)
		if got.Get("X-Sum") != "1" {
			r.Errorf("trailers %v, want the caller's", got)
		}
	})
}

// trailing sets a trailer at the end of a body.
type trailing struct {
	io.ReadCloser
	trailer http.Header
}

func (b trailing) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.trailer.Set("X-Sum", "1")
	}
	return n, err
}

// So it is with the answer's headers; a type is not guessed.
func TestResponseHeaders(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		r.up.will(reply{body: text("<html>"), header: http.Header{
			"X-A": {"1", "2"}, "Content-Length": {"6"}, "Connection": {"X-Hop"}, "X-Hop": {"1"}, "Keep-Alive": {"1"}, "Server": {"u"},
		}})
		r.get("/").wantHeader(t, http.Header{"X-A": {"1", "2"}, "Content-Length": {"6"}, "Server": {"u"}, "Content-Type": nil})
	})
}

// F8: what says the length of a body that is not sent stays as it was.
func TestAnswersWithoutBody(t *testing.T) {
	for _, c := range []struct {
		method string
		up     reply
	}{
		{"HEAD", reply{header: http.Header{"Content-Length": {"12345"}, "Content-Type": {"x/y"}}, length: 12345}},
		{"GET", reply{status: 304, header: http.Header{"Etag": {`"1"`}}}},
		{"GET", reply{status: 204, header: http.Header{}}},
	} {
		bubble(t, both(keepsCopies, retries(1)), func(r *rig) {
			r.up.will(c.up)
			got := r.call(caller{method: c.method})
			want := c.up.header.Clone()
			if _, ok := want["Content-Type"]; !ok {
				want["Content-Type"] = nil // so that net/http guesses none
			}
			got.wantHeader(t, want)
			if got.body != "" || r.lastCall().Outcome != OutcomeOK {
				r.Errorf("got %q, %s", got.body, r.lastCall().Outcome)
			}
		})
	}
}

// What no upstream may see is refused.
func TestUnacceptable(t *testing.T) {
	for _, c := range []struct {
		name   string
		caller caller
		detail string
	}{
		{"CONNECT", caller{method: "CONNECT", target: "elsewhere:443"}, "CONNECT is not accepted: each port of the sidecar leads to one dependency."},
		{"PRI", caller{method: "PRI", target: "*"}, "An HTTP/2 preface was sent as a request."},
		{"h2c", caller{header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {"x, H2C"}}}, "Upgrade: h2c is not accepted (RFC 9113 §3.1 has obsoleted it)."},
		{
			"upgrade", caller{header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {"caf\u00e9"}}},
			"The request asks for an upgrade to a protocol whose name is not valid.",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, fallbacks(static(200, "FB")), func(r *rig) {
				got := r.call(c.caller)
				got.want(t, 400, problemBody(400, c.detail, ReasonRequest), 0)
				if h := got.header.Get("Proxy-Status"); h != `sidecar; error=http_request_denied; details="request"` {
					r.Errorf("Proxy-Status: %s", h)
				}
				if h := r.lastCall(); h.Outcome != OutcomeFailed || h.Reason != ReasonRequest || h.Attempts != 0 {
					r.Errorf("heard %+v", h)
				}
				r.wantEvidence(nothing)
			})
		})
	}
}

// What cannot be sent on is the caller's fault, also where only HTTP/2 lets it
// through.
func TestUnacceptableInHTTP2(t *testing.T) {
	for _, c := range []struct {
		spoil  func(*http.Request)
		detail string
	}{
		{func(r *http.Request) { r.Trailer = http.Header{"A B": nil} }, "The request announces a trailer whose name is not valid."},
		{func(r *http.Request) { r.Method = "GET /other" }, "The request's method is not a token."},
		{func(r *http.Request) { r.RequestURI += "?a HTTP/1.0" }, "The request's target has a space in it, which is written %20."},
	} {
		bubble(t, nil, func(r *rig) {
			a := caller{method: "PUT", body: text("x"), length: -1}.dial(r.T)
			c.spoil(a.req)
			r.made = append(r.made, a)
			a.serve(r.d)
			a.wait().want(t, 400, problemBody(400, c.detail, ReasonRequest), 0)
			r.wantEvidence(nothing)
		})
	}
}

// The first route that matches a call decides its policy; what is compared is
// the path as it was sent.
func TestRoutes(t *testing.T) {
	s := &Settings{Routes: []Route{
		{Methods: []string{"POST"}, Path: "/charges"},
		{PathPrefix: "/charges"},
		{Path: "/a%2Fb"},
		{Methods: []string{"PUT", "PATCH"}},
	}}
	for _, c := range []struct {
		method, path string
		want         int // number of the route, -1 for none
	}{
		{"POST", "/charges", 0},
		{"GET", "/charges", 1},
		{"POST", "/charges/1", 1},
		{"GET", "/charge", -1},
		{"GET", "/a%2Fb", 2},
		{"GET", "/a/b", -1},
		{"PATCH", "/x", 3},
		{"patch", "/x", -1},
	} {
		policy, route := s.match(c.method, c.path)
		want, wantPolicy := (*Route)(nil), &s.Policy
		if c.want >= 0 {
			want, wantPolicy = &s.Routes[c.want], &s.Routes[c.want].Policy
		}
		if route != want || policy != wantPolicy {
			t.Errorf("%s %s does not match route %d", c.method, c.path, c.want)
		}
	}
}
