package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// What happened: copies were replayed for some failures only, so an outage of
// another kind showed errors although a usable copy was there.
// Right: whatever keeps the dependency from answering, the good copy answers.
func TestE6_EveryFailureReplaysTheCopy(t *testing.T) {
	t.Parallel()
	w := patients(t, copies, "", parting(http.StatusOK, "good"))
	w.each(t, func(t *testing.T, p patient) {
		if r := p.get(p.port, "/page"); r.body != "good" || r.header.Get("Sidecar-Degraded") != "" {
			t.Fatal(r)
		}
	})
	w.stored(t, 1)
	w.each(t, func(t *testing.T, p patient) {
		p.sicken(t)
		before := p.u.requests()
		wantCopy(t, p.call(http.MethodGet, "/page"), "good", p.reason)
		p.wantMetric(t, 1, "sidecar_fallbacks_total", "dependency", p.name, "source", "stale", "reason", p.reason)
		if n := p.u.requests() - before; p.asked != (n == 1) {
			t.Errorf("the upstream saw %d requests of the degraded call", n)
		}
		p.wantNothing(t, "a target without a copy", p.call(http.MethodGet, "/never"))
	})
}

// What happened: an error page took the good copy's place, and was then shown
// as the last good answer.
// Right: a failing answer is never stored, a copy is never shown while the
// dependency answers, the last good answer replaces it, and a successful write
// to the same target removes it.
func TestE6_FailureNeverReplacesTheCopy(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, parting(http.StatusOK, "good"))
	s := start(t, stale+`
dependencies:
  - {name: a, listen: $A, upstream: "http://$U"}
`, u)
	s.get("A", "/page")
	s.wantMetric(t, 1, "sidecar_cache_stores_total")
	u.handle(parting(http.StatusInternalServerError, "no"))
	if r := s.get("A", "/never"); r.status != http.StatusInternalServerError || r.body != "no" {
		t.Errorf("a failure without a copy: %v, want the upstream's own answer", r)
	}
	wantCopy(t, s.get("A", "/page"), "good", "status")
	u.refuse()
	wantCopy(t, s.get("A", "/page"), "good", "connect")
	if r := s.get("A", "/never"); r.status != http.StatusServiceUnavailable {
		t.Errorf("a target that only ever failed: %v, want 503 of the open circuit", r)
	}
	u.accept(t)
	u.handle(parting(http.StatusOK, "newer"))
	s.force(t, "a", "closed")
	if r := s.get("A", "/page"); r.body != "newer" || r.header.Get("Sidecar-Degraded") != "" || r.header.Get("Age") != "" {
		t.Errorf("the dependency answers again: %v %v, want its own answer", r, r.header)
	}
	s.wantMetric(t, 2, "sidecar_cache_stores_total")
	u.refuse()
	wantCopy(t, s.get("A", "/page"), "newer", "connect")
	u.accept(t)
	if r := s.do(context.Background(), http.MethodPut, "A", "/page", strings.NewReader("x")); r.status != http.StatusOK {
		t.Fatal(r)
	}
	s.force(t, "a", "open")
	if r := s.get("A", "/page"); r.status != http.StatusServiceUnavailable {
		t.Errorf("after a write to the target: %v, want 503", r)
	}
}

// What happened: copies were replayed past their age, or although the upstream
// or the caller had forbidden to keep them.
// Right: 503 instead.
func TestE6_CopiesThatMustNotBeReplayed(t *testing.T) {
	t.Parallel()
	const authorization = "Authorization: Basic dTpw"
	cases := []struct {
		lines    string // of the answer, separated by "|"
		request  string // a line of the request
		replayed bool
	}{
		{"", "", true},
		{"Cache-Control: max-age=0", "", true},
		{"Cache-Control: no-store", "", false},
		{"Cache-Control: max-age=60|Cache-Control: NO-STORE", "", false},
		{"Cache-Control: private", "", false},
		{`Cache-Control: private="X-A"`, "", false},
		{"Cache-Control: no-cache", "", false},
		{"Cache-Control: max-age=0, must-revalidate", "", false},
		{"Cache-Control: must-revalidate", "", false},
		{"Cache-Control: max-age=600, must-revalidate", "", true},
		{"Cache-Control: max-age=600, must-revalidate|Age: 601", "", false},
		{"Cache-Control: max-age=0, proxy-revalidate", "", false},
		{"Cache-Control: s-maxage=0", "", false},
		{"Cache-Control: s-maxage=600", "", true},
		{"Cache-Control: max-age=0, stale-if-error=60|Age: 30", "", true},
		{"Cache-Control: max-age=0, stale-if-error=60|Age: 61", "", false},
		{"Age: 570", "", true},
		{"Age: 601", "", false},
		{"Set-Cookie: a=b", "", false},
		{"Vary: *", "", false},
		{"Vary: Accept, *", "", false},
		{"", "Cache-Control: no-store", false},
		{"", authorization, false},
		{"", "Cookie: a=b", false},
		{"Cache-Control: public", authorization, true},
		{"Cache-Control: s-maxage=600", "Cookie: a=b", true},
		{"status 206", "", false},
		{"status 404", "", false},
		{"status 203", "", true},
	}
	u := newUpstream(t, func(x *exchange) {
		i, status := 0, http.StatusOK
		var lines []string
		if _, err := fmt.Sscanf(x.req.URL.Path, "/%d", &i); err == nil && cases[i].lines != "" {
			lines = strings.Split(cases[i].lines, "|")
		}
		if len(lines) == 1 && strings.HasPrefix(lines[0], "status ") {
			_, _ = fmt.Sscanf(lines[0], "status %d", &status)
			lines = nil
		}
		x.respond(status, "good", lines...)
	})
	s := start(t, stale+`
dependencies:
  - {name: a, listen: $A, upstream: "http://$U"}
  - {name: short, listen: $SHORT, upstream: "http://$U", fallback: [{stale: {max_age: 2s}}]}
`, u)
	call := func(i int) result {
		if cases[i].request == "" {
			return s.get("A", fmt.Sprintf("/%d", i))
		}
		return s.get("A", fmt.Sprintf("/%d", i), cases[i].request)
	}
	stored := 1 // of the other dependency
	for i, c := range cases {
		if r := call(i); r.body != "good" || r.header.Get("Sidecar-Degraded") != "" {
			t.Fatalf("%+v: %v", c, r)
		}
		if c.replayed {
			stored++
		}
	}
	primed := time.Now()
	s.get("SHORT", "/")
	if !poll(2*time.Second, func() bool { return s.metrics(t).sum(t, "sidecar_cache_stores_total") >= float64(stored) }) {
		t.Fatalf("fewer than %d copies were stored", stored)
	}
	s.force(t, "short", "open")
	wantCopy(t, s.get("SHORT", "/"), "good", "open")
	s.force(t, "a", "open")
	for i, c := range cases {
		r := call(i)
		switch {
		case c.replayed && (r.body != "good" || !strings.HasPrefix(r.header.Get("Sidecar-Degraded"), "stale; reason=open; age=")):
			t.Errorf("%+v: %v, want the copy", c, r)
		case !c.replayed && (r.status != http.StatusServiceUnavailable || r.reason() != "open"):
			t.Errorf("%+v: %v, want 503", c, r)
		}
	}
	if !poll(4*time.Second, func() bool { return s.get("SHORT", "/").status == http.StatusServiceUnavailable }) {
		t.Errorf("a copy was still shown %s after it was stored, want at most 2s", time.Since(primed))
	}
	if age := time.Since(primed); age < 2*time.Second {
		t.Errorf("a copy was refused at an age of %s at most, want 2s", age)
	}
}
