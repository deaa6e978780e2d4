package proxy

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
)

// target knows how a caller's request-target becomes the upstream's.
type target struct {
	scheme, host string
	base         string // the upstream's path without a trailing slash
	authority    string // the Authorization made of the URL's userinfo, or empty
}

func newTarget(u *url.URL) *target {
	t := &target{scheme: u.Scheme, host: u.Host, base: strings.TrimRight(u.EscapedPath(), "/")}
	if u.User != nil {
		password, _ := u.User.Password()
		basic := http.Request{Header: http.Header{}}
		basic.SetBasicAuth(u.User.Username(), password)
		t.authority = basic.Header.Get("Authorization")
	}
	return t
}

// rawPath returns the path that the caller sent, byte for byte, without the
// query. An absolute-form target (RFC 9112 §3.2.2) gives the path of its
// origin form: the host in it never chooses where a call goes.
func rawPath(r *http.Request) string {
	path, _, _ := strings.Cut(r.RequestURI, "?")
	if path == "*" || strings.HasPrefix(path, "/") {
		return path
	}
	_, path, _ = strings.Cut(path, "://")
	if slash := strings.IndexByte(path, '/'); slash >= 0 {
		return path[slash:]
	}
	return "/"
}

// url returns the upstream's URL for a caller's request. The path goes out
// through URL.Opaque, which net/http writes as it stands; only a path that
// begins with two slashes cannot, since Opaque would take it for a host.
func (t *target) url(r *http.Request) *url.URL {
	path := rawPath(r)
	u := &url.URL{Scheme: t.scheme, Host: t.host, RawQuery: r.URL.RawQuery, ForceQuery: r.URL.ForceQuery}
	switch {
	case path == "*":
		u.Opaque = "*"
	case strings.HasPrefix(t.base+path, "//"):
		u.Path, u.RawPath = r.URL.Path, path
	default:
		u.Opaque = t.base + path
	}
	return u
}

// targetOf returns the caller's target for a reference in an answer, if it is
// on the same origin: the upstream's, or the one by which the caller knows it.
func (c *call) targetOf(reference string) (string, bool) {
	t := c.run.target
	base, err := url.Parse(t.scheme + "://" + t.host + t.base + c.path)
	if err != nil || reference == "" {
		return "", false
	}
	u, err := base.Parse(reference)
	if err != nil {
		return "", false
	}
	path := u.EscapedPath()
	switch {
	case strings.EqualFold(u.Host, t.host) && u.Scheme == t.scheme:
		var below bool
		if path, below = strings.CutPrefix(path, t.base); !below {
			return "", false
		}
	case !strings.EqualFold(u.Host, c.r.Host):
		return "", false
	}
	if path == "" {
		path = "/"
	}
	if u.ForceQuery || u.RawQuery != "" {
		path += "?" + u.RawQuery
	}
	return path, true
}

// rewrite makes the upstream's request of the caller's. ReverseProxy has
// removed the hop-by-hop headers (RFC 9110 §7.6.1); what it removes or
// rewrites beyond that is put back.
func rewrite(p *httputil.ProxyRequest) {
	c := callOf(p.In.Context())
	p.Out.URL = c.run.target.url(p.In)
	p.Out.Trailer = p.In.Trailer
	if !c.run.settings.PreserveHost {
		p.Out.Host = ""
	}
	for _, name := range forwarding {
		if v, ok := p.In.Header[name]; ok && !hasToken(p.In.Header["Connection"], name) {
			p.Out.Header[name] = v
		}
	}
	if a := c.run.target.authority; a != "" {
		p.Out.Header.Set("Authorization", a)
	}
}

// forwarding lists the headers that ReverseProxy drops as a protection for
// servers at the edge. Beside an app they are the app's own.
var forwarding = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"}
