package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What happened: one user's page was shown to another, or to nobody in
// particular; and the tokens by which pages were kept apart could be read where
// the cache lay.
// Right: with vary_by each user gets none but their own copy, anyone else the
// failure; the values are nowhere to be seen, in no view, log or file.
func TestE7_EachUserTheirOwn(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(x *exchange) {
		x.leaving(http.StatusOK, "of "+x.req.Header.Get("X-User"))
	})
	dir := filepath.Join(t.TempDir(), "copies")
	config := `
cache: {dir: ` + dir + `}
dependencies:
  - {name: token, listen: $TOKEN, upstream: "http://$U", fallback: [{stale: {max_age: 10m, vary_by: [authorization]}}]}
  - {name: cookie, listen: $COOKIE, upstream: "http://$U", fallback: [{stale: {max_age: 10m, vary_by: [Cookie]}}]}
  - {name: both, listen: $BOTH, upstream: "http://$U", fallback: [{stale: {max_age: 10m, vary_by: [Cookie, Authorization]}}]}
  - {name: none, listen: $NONE, upstream: "http://$U", fallback: [{stale: {max_age: 10m}}]}
`
	s := start(t, base+config, u)
	const token, cookie = "Authorization: Bearer marker-%s-7f3a", "Cookie: session=marker-%s-91bc"
	lines := map[string][]string{"TOKEN": {token}, "COOKIE": {cookie}, "BOTH": {token, cookie}}
	as := func(port, user string) result {
		with := []string{"X-User: " + user}
		for _, line := range lines[port] {
			with = append(with, fmt.Sprintf(line, user))
		}
		return s.get(port, "/page", with...)
	}
	for port := range lines {
		for _, user := range []string{"ann", "bob"} {
			if r := as(port, user); r.body != "of "+user {
				t.Fatal(port, r)
			}
		}
	}
	// Not kept: credentials by which nothing is kept apart.
	s.get("NONE", "/page", fmt.Sprintf(token, "ann"), "X-User: ann")
	s.get("TOKEN", "/more", fmt.Sprintf(token, "ann"), fmt.Sprintf(cookie, "ann"), "X-User: ann")
	s.wantMetric(t, 6, "sidecar_cache_stores_total")
	s.wantMetric(t, 2, "sidecar_cache_skips_total", "reason", "credentials")
	outage := func() {
		t.Helper()
		for _, name := range []string{"token", "cookie", "both", "none"} {
			s.force(t, name, "open")
		}
		for port := range lines {
			for _, user := range []string{"ann", "bob"} {
				wantCopy(t, as(port, user), "of "+user, "open")
			}
			if r := as(port, "eve"); r.status != http.StatusServiceUnavailable {
				t.Errorf("%s: a user without a copy: %v, want 503", port, r)
			}
		}
		for what, r := range map[string]result{
			"a caller without a token": s.get("TOKEN", "/page"), "one without a cookie": s.get("COOKIE", "/page"), "one with neither": s.get("BOTH", "/page"),
			"a token of one and a cookie of the other": s.get("BOTH", "/page", fmt.Sprintf(token, "ann"), fmt.Sprintf(cookie, "bob")),
			"a token alone": s.get("BOTH", "/page", fmt.Sprintf(token, "ann")), "a token in another letter": s.get("TOKEN", "/page", strings.ToUpper(fmt.Sprintf(token, "ann"))),
			"a token and a cookie": s.get("TOKEN", "/page", fmt.Sprintf(token, "ann"), fmt.Sprintf(cookie, "ann")),
			"two tokens":           s.get("TOKEN", "/page", fmt.Sprintf(token, "ann"), fmt.Sprintf(token, "bob")),
			"no vary_by":           s.get("NONE", "/page", fmt.Sprintf(token, "ann")), "no vary_by nor token": s.get("NONE", "/page"),
		} {
			if r.status != http.StatusServiceUnavailable || strings.Contains(r.body, "of ") {
				t.Errorf("%s got %v, want 503", what, r)
			}
		}
	}
	outage()
	views := func() {
		t.Helper()
		for _, path := range []string{"/", "/api/config", "/api/dependencies", "/metrics"} {
			r := s.admin(http.MethodGet, path)
			if r.status != http.StatusOK || strings.Contains(r.body, "marker") {
				t.Errorf("GET %s tells a caller's value: %v", path, r)
			}
		}
	}
	views()
	s.stop(t)
	names, bytes := wantNoMarker(t, dir)
	if names < 6 {
		t.Errorf("the directory holds %d copies, want 6", names)
	}
	t.Logf("no marker in %d files of %d bytes", names, bytes)
	s.restart(t)
	s.wantMetric(t, 6, "sidecar_cache_entries")
	outage()
	views()
	// One user's write makes every user's copy of the target invalid.
	s.force(t, "token", "auto")
	if r := s.do(context.Background(), http.MethodPost, "TOKEN", "/page", strings.NewReader("x"), fmt.Sprintf(token, "ann")); r.status != http.StatusOK {
		t.Fatal(r)
	}
	s.force(t, "token", "open")
	if r := as("TOKEN", "bob"); r.status != http.StatusServiceUnavailable {
		t.Errorf("after a write of another user: %v, want 503", r)
	}
	s.stop(t)
	wantNoMarker(t, dir)
	if strings.Contains(s.output.text(), "marker") {
		t.Errorf("a caller's value was logged")
	}
}

// wantNoMarker fails the test if a file of a directory, or its name, holds a
// caller's value, and returns how much it has looked at.
func wantNoMarker(t *testing.T, dir string) (files, bytes int) {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text)+f.Name(), "marker") {
			t.Errorf("%s tells a caller's value", f.Name())
		}
		if strings.HasSuffix(f.Name(), ".copy") {
			files, bytes = files+1, bytes+len(text)
		}
	}
	return files, bytes
}
