package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// secrets are what no log, page, metric or answer of the sidecar's own may
// hold, in any form that they travel in.
var secrets = []string{
	"query-marker", "header-marker", "cookie-marker", "trailer-marker", "body-marker", "user-marker", "password-marker",
	base64.StdEncoding.EncodeToString([]byte("user-marker:password-marker")),
	base64.StdEncoding.EncodeToString([]byte("caller-marker:caller-password-marker")), "caller-marker",
}

// wantNoSecret fails the test if a text holds a secret.
func wantNoSecret(t *testing.T, where, text string) {
	t.Helper()
	for _, secret := range secrets {
		if i := strings.Index(text, secret); i >= 0 {
			t.Errorf("%s holds %q: …%s…", where, secret, text[max(0, i-100):min(len(text), i+100)])
		}
	}
}

// TestSecrets_AreNeverShown uses every kind of answer, refusal and complaint
// with secrets in query, headers, body and the upstream's userinfo. The
// userinfo reaches the upstream as Basic authorization and nobody else.
func TestSecrets_AreNeverShown(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(x *exchange) {
		switch strings.TrimPrefix(x.req.URL.Path, "/base") {
		case "/fails":
			x.respond(http.StatusInternalServerError, "no")
		case "/reset":
			x.reset()
		case "/garbage":
			x.write("garbage header-marker\r\n\r\n")
			x.over = true
		case "/hang":
			x.hang()
		case "/surplus": // Go's client complains of what comes unasked
			x.respond(http.StatusOK, "ok")
			x.write("HTTP/1.1 200 OK\r\nX-Echo: header-marker\r\nContent-Length: 0\r\n\r\n")
		default:
			x.respond(http.StatusOK, "ok", "X-Seen: "+x.req.Header.Get("Authorization"))
		}
	})
	const config = base + `
log: {level: debug, access: all, report_interval: 100ms}
dependencies:
  - name: a
    listen: $A
    upstream: http://user-marker:password-marker@$U/base
    breaker: {mode: "off"}
    max_request_bytes: 1000B
    attempt_timeout: 200ms
    retry: {max_retries: 1}
  - {name: copy, listen: $COPY, upstream: "http://user-marker:password-marker@$U", fallback: [{stale: {max_age: 10m}}]}
  - {name: fixed, listen: $FIXED, upstream: "http://user-marker:password-marker@$U", fallback: [{static: {body: FB}}]}
  - {name: down, listen: $DOWN, upstream: "http://user-marker:password-marker@$GONE"}
`
	s := start(t, config, u)
	events := s.followEvents(t)
	marked := []string{"X-Secret: header-marker", "Cookie: c=cookie-marker", "Idempotency-Key: header-marker", "Referer: http://a.test/?query-marker"}
	const query = "?q=query-marker;&%zz=query-marker"
	if r := s.get("A", "/x"+query, marked...); r.status != http.StatusOK {
		t.Fatal(r)
	}
	x := u.exchange(t, 1).req
	if user, password, ok := x.BasicAuth(); !ok || user != "user-marker" || password != "password-marker" || x.URL.Path != "/base/x" {
		t.Errorf("the upstream saw %s with the authorization %q", x.URL, x.Header.Get("Authorization"))
	}
	s.get("COPY", "/"+query) // stored
	answers := []result{}
	for _, path := range []string{"/fails", "/reset", "/garbage", "/hang", "/surplus"} {
		answers = append(answers, s.get("A", path+query, marked...))
		answers = append(answers, s.get("FIXED", path+query, marked...))
	}
	for range 4 { // the last one meets an open circuit
		answers = append(answers, s.get("DOWN", "/"+query, marked...))
	}
	s.force(t, "copy", "open")
	answers = append(answers, s.get("COPY", "/"+query), s.get("COPY", "/none"+query, marked...))
	answers = append(answers, s.do(context.Background(), http.MethodPost, "A", "/"+query, strings.NewReader(strings.Repeat("body-marker", 100)), marked...))
	for _, request := range []string{
		"CONNECT a.test:80" + query + " HTTP/1.1\r\nHost: a.test\r\nX-Secret: header-marker\r\n\r\n",
		"GET http://caller-marker:caller-password-marker@a.test/fails" + query + " HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"GET /" + query + " HTTP/1.1\r\nHost: a.test\r\nUpgrade: h2c\r\nX-Secret: header-marker\r\n\r\n",
		"GET /" + query + " HTTP/1.1\r\nHost: header-marker\x01\r\n\r\n",
		"GET /" + query + " HTTP/1.1\r\nHost: a.test\r\nheader-marker\r\n\r\n",
		"GET /" + query + " HTTP/1.1\r\nHost: a.test\r\nX Secret: header-marker\r\n\r\n",
		"GET /" + query + " HTTP/1.1\r\nHost: a.test\r\nX-Secret: header-marker" + strings.Repeat("x", 2<<20) + "\r\n\r\n",
		"POST /" + query + " HTTP/1.1\r\nHost: a.test\r\nContent-Length: header-marker\r\n\r\n",
		"POST /" + query + " HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n5\r\nhello\r\n0\r\nX-T: trailer-marker\r\n\r\n",
		"POST /" + query + " HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\nbody-marker\r\n",
		"header-marker\r\n\r\n",
	} {
		c := s.dial(t, "A")
		_, _ = io.WriteString(c.conn, request) // a refusal may come before the end
		answers = append(answers, c.response(http.MethodGet))
	}
	for i, r := range answers {
		wantNoSecret(t, fmt.Sprintf("the body of answer %d", i), r.body)
		r.header.Del("X-Seen")
		wantNoSecret(t, fmt.Sprintf("the headers of answer %d", i), fmt.Sprint(r.header))
	}
	// What could not be loaded is complained of without its secrets, too.
	for _, upstream := range []string{
		"http://user-marker:password-marker@a.test:70000", "http://user-marker:password-marker@", "ftp://user-marker:password-marker@a.test",
		"http://user-marker:password-marker%zz@a.test", "http://user-marker:password-marker@a.test/?query-marker", "http://user-marker:pass word-marker@a.test",
	} {
		bad := fmt.Sprintf("dependencies:\n  - {name: a, listen: %s, upstream: %q}\n", s.addresses["A"], upstream)
		p := s.failReload(t, bad)
		wantNoSecret(t, "the answer to a reload", fmt.Sprint(p))
		wantNoSecret(t, "the page after a reload", s.admin(http.MethodGet, "/").body)
		r := runCommand(t, []string{"validate", file(t, "bad.yaml", bad)})
		wantNoSecret(t, "sidecar validate", r.out+r.err)
		r = runCommand(t, []string{"run", "-c", file(t, "bad.yaml", bad)})
		wantNoSecret(t, "sidecar run", r.out+r.err)
	}
	for _, path := range []string{"/", "/api/dependencies", "/api/dependencies/a", "/api/dependencies/a/advice", "/api/history", "/api/config", "/metrics"} {
		r := s.admin(http.MethodGet, path)
		if r.status != http.StatusOK || r.body == "" {
			t.Errorf("GET %s: %v", path, r)
		}
		wantNoSecret(t, "GET "+path, r.body)
	}
	if d := s.api(t, "a"); d.Upstream != "http://xxxxx@"+u.addr+"/base" {
		t.Errorf("the API shows the upstream %q", d.Upstream)
	}
	wantNoSecret(t, "sidecar status", runCommand(t, []string{"status", "-c", s.path, "--admin-listen", s.addresses["ADMIN"]}).out)
	if text := events(); !strings.Contains(text, "event: transition") || !strings.Contains(text, "event: reload") {
		t.Errorf("the events were %q", text)
	} else {
		wantNoSecret(t, "GET /api/events", text)
	}
	if n := len(s.logs("msg", "call", "path", "/fails", "reason", "status")); n < 2 {
		t.Errorf("%d failed calls logged", n)
	}
	s.stop(t)
	wantNoSecret(t, "standard error", s.output.text())
	for line := range strings.Lines(s.output.text()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("a line of the log is no JSON: %s", line)
		}
	}
}

// followEvents listens to the admin API's events. What it returns ends the
// stream and returns what came.
func (s *sidecar) followEvents(t *testing.T) (text func() string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url("ADMIN")+"/api/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	came := make(chan string, 1)
	go func() {
		defer res.Body.Close()
		all, _ := io.ReadAll(res.Body)
		came <- string(all)
	}()
	return func() string {
		time.AfterFunc(100*time.Millisecond, cancel)
		return <-came
	}
}
