package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// admin makes a request to the admin listener.
func (s *sidecar) admin(method, path string, lines ...string) result {
	return s.do(context.Background(), method, "ADMIN", path, nil, lines...)
}

// TestAdmin_KeepsPagesOut: a web page cannot reach the admin listener by a
// name of its own, nor write from another origin; wrong methods are named.
func TestAdmin_KeepsPagesOut(t *testing.T) {
	t.Parallel()
	s := start(t, one, newUpstream(t, ok))
	asHost := func(port, method, path, host string) result {
		c := s.dial(t, port)
		c.send(t, fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nContent-Length: 0\r\n\r\n", method, path, host))
		return c.response(method)
	}
	for _, host := range []string{"evil.test", "127.0.0.1.evil.test", "10.0.0.1:9900", "localhost.evil.test"} {
		for _, path := range []string{"/", "/api/dependencies", "/api/config", "/metrics"} {
			if r := asHost("ADMIN", "GET", path, host); r.status != http.StatusForbidden {
				t.Errorf("GET %s for %s: %v, want 403", path, host, r)
			}
		}
		if r := asHost("ADMIN", "POST", "/api/reload", host); r.status != http.StatusForbidden {
			t.Errorf("a reload for %s: %v, want 403", host, r)
		}
		if r := asHost("METRICS", "GET", "/metrics", host); r.status != http.StatusOK {
			t.Errorf("a scrape of the metrics listener for %s: %v", host, r)
		}
	}
	for _, host := range []string{"localhost", "127.0.0.1:9900", "[::1]", "[::1]:9900", "LOCALHOST:80"} {
		if r := asHost("ADMIN", "GET", "/api/dependencies", host); r.status != http.StatusOK {
			t.Errorf("GET for %s: %v", host, r)
		}
	}
	for _, path := range []string{"/api/reload", "/api/dependencies/a/breaker"} {
		for _, line := range []string{"Origin: http://evil.test", "Origin: null", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site", "Origin: https://" + s.addresses["ADMIN"]} {
			if r := s.admin(http.MethodPost, path, line); r.status != http.StatusForbidden {
				t.Errorf("POST %s with %s: %v, want 403", path, line, r)
			}
		}
		for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
			if r := s.admin(method, path); r.status != http.StatusMethodNotAllowed || r.header.Get("Allow") != http.MethodPost {
				t.Errorf("%s %s: %v, Allow %q, want 405", method, path, r, r.header.Get("Allow"))
			}
		}
	}
	for _, path := range []string{"/", "/api/dependencies", "/api/dependencies/a", "/api/dependencies/a/advice", "/api/history", "/api/config", "/api/events", "/metrics", "/livez", "/readyz"} {
		if r := s.admin(http.MethodPost, path); r.status != http.StatusMethodNotAllowed || !strings.Contains(r.header.Get("Allow"), "GET") {
			t.Errorf("POST %s: %v, want 405", path, r)
		}
	}
	if b := s.api(t, "a").Breaker; b.Forced || b.State != "closed" {
		t.Errorf("a refused order was carried out: %+v", b)
	}
	s.wantMetric(t, 0, "sidecar_config_reloads_total")
	for _, path := range []string{"/", "/api/dependencies", "/api/reload"} {
		if r := asHost("METRICS", "GET", path, "127.0.0.1"); r.status != http.StatusNotFound {
			t.Errorf("GET %s on the metrics listener: %v, want 404", path, r)
		}
	}
}

// TestForce: an operator's order holds through a reload, every view tells of
// it, and "auto" begins anew.
func TestForce(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, ok)
	s := start(t, one, u)
	want := func(state string, gauge float64, forced bool, note string) {
		t.Helper()
		s.wantMetric(t, gauge, "sidecar_breaker_state", "dependency", "a")
		if b := s.api(t, "a").Breaker; b.State != state || b.Forced != forced || b.OpenUntil != nil {
			t.Errorf("the API shows %+v, want %s, forced %v", b, state, forced)
		}
		if row := s.pageRow(t, "a"); row[2] != strings.TrimSpace(state+" "+note) {
			t.Errorf("the page shows %q, want %s %s", row[2], state, note)
		}
		if row := s.statusRow(t, "a"); row[2] != strings.TrimSpace(state+" "+note) {
			t.Errorf("sidecar status shows %q, want %s %s", row[2], state, note)
		}
	}
	call := func(status int, retryAfter string) {
		t.Helper()
		before := u.requests()
		r := s.get("A", "/x")
		if r.status != status || r.header.Get("Retry-After") != retryAfter {
			t.Errorf("a call: %v, Retry-After %q, want %d and %q", r, r.header.Get("Retry-After"), status, retryAfter)
		}
		if reached := u.requests() > before; reached != (retryAfter == "") {
			t.Errorf("a call answered with %d reached the upstream: %v", status, reached)
		}
	}
	want("closed", 0, false, "")
	call(http.StatusOK, "")
	s.force(t, "a", "open")
	want("open", 2, true, "(forced)")
	call(http.StatusServiceUnavailable, "1")
	s.reload(t, one+"    connect_timeout: 200ms\n")
	want("open", 2, true, "(forced)")
	call(http.StatusServiceUnavailable, "1")
	s.force(t, "a", "closed")
	want("closed", 0, true, "(forced)")
	u.handle(fails(http.StatusInternalServerError))
	for range 5 {
		call(http.StatusInternalServerError, "")
	}
	want("closed", 0, true, "(forced)")
	s.force(t, "a", "auto")
	want("closed", 0, false, "")
	if w := s.api(t, "a").Breaker.Window; w.Calls != 0 {
		t.Errorf("back to automatic the window holds %+v, want nothing", w)
	}
	for range 3 {
		call(http.StatusInternalServerError, "")
	}
	if b := s.api(t, "a").Breaker; b.State != "open" || b.Forced || b.OpenUntil == nil {
		t.Errorf("after 3 failures by its own rules: %+v, want open", b)
	}
	s.force(t, "a", "open")
	s.force(t, "a", "auto")
	want("closed", 0, false, "")
	for word, n := range map[string]int{"open": 2, "closed": 1, "auto": 2} {
		if got := len(s.logs("msg", "breaker set by an operator", "dependency", "a", "force", word)); got != n {
			t.Errorf("%d orders %q logged, want %d", got, word, n)
		}
	}
	if r := s.admin(http.MethodPost, "/api/dependencies/nobody/breaker"); r.status != http.StatusBadRequest && r.status != http.StatusNotFound {
		t.Errorf("an order for nobody: %v", r)
	}
}
