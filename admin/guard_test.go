package admin

import (
	"crypto/tls"
	"net/http"
	"strings"
	"testing"
)

func TestHostMustBeLoopback(t *testing.T) {
	h := New(options(newFake()))
	for host, want := range map[string]int{
		"127.0.0.1": 200, "127.0.0.1:9900": 200, "127.8.9.10:1": 200, "localhost": 200, "LocalHost:9900": 200,
		"[::1]": 200, "[::1]:9900": 200, "[::ffff:127.0.0.1]:9900": 200,
		"": 403, "evil.example": 403, "evil.example:9900": 403, "192.168.0.1:9900": 403, "0.0.0.0:9900": 403,
		"127.0.0.1.evil.example": 403, "localhost.evil.example": 403, "127.1": 403, "[::2]:9900": 403, "128.0.0.1": 403,
		"2130706433": 403, "evil@127.0.0.1": 403, "127.0.0.1:9900:9900": 403,
	} {
		for _, target := range []string{"/", "/api/dependencies", "/metrics", "/livez", "/nothing"} {
			w := ask(h, request("GET", target, "", "Host", host))
			if want == 403 {
				expectProblem(t, w, 403)
			} else if w.Code == 403 {
				t.Errorf("Host %q is refused at %s", host, target)
			}
		}
	}
}

func TestWritesMustNotComeFromOtherOrigins(t *testing.T) {
	cases := []struct {
		name    string
		headers []string
		want    int
	}{
		{"a program", nil, 200},
		{"own page", []string{"Origin", "http://127.0.0.1:9900", "Sec-Fetch-Site", "same-origin"}, 200},
		{"own page, old browser", []string{"Origin", "http://127.0.0.1:9900"}, 200},
		{"typed by the user", []string{"Sec-Fetch-Site", "none"}, 200},
		{"other site", []string{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"}, 403},
		{"other site, old browser", []string{"Origin", "https://evil.example"}, 403},
		{"other port", []string{"Origin", "http://127.0.0.1:8080", "Sec-Fetch-Site", "same-site"}, 403},
		{"other port, old browser", []string{"Origin", "http://127.0.0.1:8080"}, 403},
		{"other scheme", []string{"Origin", "https://127.0.0.1:9900"}, 403},
		{"other name of this machine", []string{"Origin", "http://localhost:9900"}, 403},
		{"sandboxed frame", []string{"Origin", "null"}, 403},
		{"contradiction", []string{"Origin", "https://evil.example", "Sec-Fetch-Site", "same-origin"}, 403},
		{"no origin, other site", []string{"Sec-Fetch-Site", "cross-site"}, 403},
	}
	for _, c := range cases {
		f := newFake()
		h := New(options(f))
		if got := ask(h, request("POST", "/api/reload", "", c.headers...)).Code; got != c.want {
			t.Errorf("%s: reload answers %d, want %d", c.name, got, c.want)
		}
		if reloaded := f.reloads == 1; reloaded != (c.want == 200) {
			t.Errorf("%s: %d reloads", c.name, f.reloads)
		}
		w := ask(h, request("POST", "/api/dependencies/payments/breaker", `{"force":"closed"}`, c.headers...))
		if w.Code != c.want {
			t.Errorf("%s: force answers %d, want %d", c.name, w.Code, c.want)
		}
		for method, body := range map[string]string{"POST": `{"refuse":true,"for":"1s"}`, "DELETE": ""} {
			if w := ask(h, request(method, "/api/dependencies/payments/drill", body, c.headers...)); w.Code != c.want {
				t.Errorf("%s: %s of a drill answers %d, want %d", c.name, method, w.Code, c.want)
			}
		}
		if got := ask(h, request("GET", "/api/dependencies", "", c.headers...)).Code; got != 200 {
			t.Errorf("%s: reading answers %d, want 200", c.name, got)
		}
	}
}

func TestOriginOfATLSListener(t *testing.T) {
	r := request("POST", "/api/reload", "", "Origin", "https://127.0.0.1:9900")
	r.TLS = &tls.ConnectionState{}
	if got := ask(New(options(newFake())), r).Code; got != 200 {
		t.Errorf("the own origin over TLS is answered with %d", got)
	}
}

func TestWrongMethods(t *testing.T) {
	o := options(newFake())
	o.Pprof = true
	h := New(o)
	for target, allow := range map[string]string{
		"/": "GET, HEAD", "/style.css": "GET, HEAD", "/api/dependencies": "GET, HEAD", "/api/dependencies/payments": "GET, HEAD",
		"/api/dependencies/payments/breaker": "POST", "/api/dependencies/payments/drill": "DELETE, GET, POST, HEAD", "/api/config": "GET, HEAD", "/api/reload": "POST", "/api/events": "GET, HEAD",
		"/metrics": "GET, HEAD", "/livez": "GET, HEAD", "/readyz": "GET, HEAD", "/debug/pprof/": "GET, HEAD",
		"/debug/pprof/symbol": "GET, POST, HEAD",
	} {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW"} {
			if strings.Contains(allow, method) {
				continue
			}
			w := ask(h, request(method, target, ""))
			expectProblem(t, w, 405)
			if got := w.Header().Get("Allow"); got != allow {
				t.Errorf("%s %s: Allow is %q, want %q", method, target, got, allow)
			}
		}
	}
}

func TestEveryAnswerIsHardened(t *testing.T) {
	o := options(newFake())
	h := New(o)
	for name, w := range map[string]http.Header{
		"page":    ask(h, request("GET", "/", "")).Header(),
		"style":   ask(h, request("GET", "/style.css", "")).Header(),
		"api":     ask(h, request("GET", "/api/dependencies", "")).Header(),
		"refused": ask(h, request("GET", "/", "", "Host", "evil.example")).Header(),
		"nothing": ask(h, request("GET", "/nothing", "")).Header(),
		"metrics": ask(NewMetrics(o.Metrics, o.Supervisor.Ready), request("GET", "/metrics", "")).Header(),
	} {
		for header, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Cache-Control": "no-store",
			"Cross-Origin-Resource-Policy": "same-origin", "Referrer-Policy": "no-referrer",
		} {
			if got := w.Get(header); got != want {
				t.Errorf("%s: %s is %q, want %q", name, header, got, want)
			}
		}
		csp := w.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"} {
			if !strings.Contains(csp, part) {
				t.Errorf("%s: %q lacks %s", name, csp, part)
			}
		}
		if strings.Contains(csp, "unsafe") || strings.Contains(csp, "http:") || strings.Contains(csp, "*") {
			t.Errorf("%s: %q allows too much", name, csp)
		}
		if scripts := strings.Contains(csp, "script-src 'self';"); scripts != (name == "page") {
			t.Errorf("%s: scripts are allowed: %v (%q)", name, scripts, csp)
		}
	}
}
