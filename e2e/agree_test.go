package e2e

import (
	"fmt"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestViewsAgree: page, API, metrics, log and "sidecar status" count the same
// calls.
func TestViewsAgree(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, ok)
	s := start(t, base+`
dependencies:
  - name: a
    listen: $A
    upstream: http://$U
    breaker: {cooldown: 60s}
    bulkhead: {max_concurrent: 3, max_waiting: 2}
    routes:
      - {match: {path: /fixed}, fallback: [{static: {body: FB}}]}
  - {name: quiet, listen: $Q, upstream: "http://$U"}
`, u)
	for range 4 {
		s.get("A", "/x")
	}
	u.handle(hang)
	s.abandon("A", "/left", 50*time.Millisecond)
	u.handle(fails(http.StatusInternalServerError))
	for range 3 {
		s.get("A", "/fails")
	}
	for range 2 {
		s.get("A", "/refused")
		s.get("A", "/fixed")
	}
	counts := map[string]float64{"ok": 4, "failed": 3, "fallback": 2, "rejected": 2, "canceled": 1}
	s.wantOutcomes(t, "a", counts)
	s.wantOutcomes(t, "quiet", nil)
	s.wantMetric(t, 4, "sidecar_rejections_total", "dependency", "a", "reason", "open")
	s.wantMetric(t, 2, "sidecar_fallbacks_total", "dependency", "a", "source", "static", "reason", "open")
	s.wantMetric(t, 2, "sidecar_breaker_state", "dependency", "a")
	d := s.api(t, "a")
	if d.Breaker.State != "open" || d.Breaker.Reason != "3 failures in a row" || d.Breaker.OpenedTotal != 1 || d.Bulkhead.InUse != 0 || d.Listen != s.addresses["A"] || d.Upstream != "http://"+u.addr {
		t.Errorf("the API shows %+v", d)
	}
	if open := s.metrics(t).sum(t, "sidecar_breaker_open_seconds_total", "dependency", "a"); open <= 0 || open < d.Breaker.OpenSecondsTotal {
		t.Errorf("open for %v s in the metrics, %v s before in the API", open, d.Breaker.OpenSecondsTotal)
	}
	for outcome, n := range counts {
		if got := len(s.logs("msg", "call", "dependency", "a", "outcome", outcome)); got != int(n) {
			t.Errorf("%d calls logged as %s, want %v", got, outcome, n)
		}
	}
	if n := len(s.logs("msg", "breaker changed", "dependency", "a", "from", "closed", "to", "open", "reason", d.Breaker.Reason)); n != 1 {
		t.Errorf("the transition was logged %d times", n)
	}
	left := regexp.MustCompile(`^(5\d|60) s$`)
	page := s.pageRow(t, "a")
	if got, want := strings.Join(append(page[:4:4], page[5:12]...), "|"), fmt.Sprintf("a|%s|open|%s|0 / 3|0|4|3|2|2|1", d.Listen, d.Breaker.Reason); got != want || !left.MatchString(page[4]) {
		t.Errorf("the page shows %q, want %s", page, want)
	}
	status := s.statusRow(t, "a")
	if got, want := strings.Join(append(status[:2:2], status[3:10]...), "|"), "a|"+d.Listen+"|0/3|0|4|3|2|2|1"; got != want ||
		!regexp.MustCompile(`^open \((5\d|60)s left\)$`).MatchString(status[2]) || status[12] != d.Breaker.Reason {
		t.Errorf("sidecar status shows %q, want %s", status, want)
	}
	if quiet := s.statusRow(t, "quiet"); quiet[2] != "closed" || quiet[10] != "-" {
		t.Errorf("sidecar status shows %q of the dependency without calls", quiet)
	}
	effective := s.admin(http.MethodGet, "/api/config")
	if r := runCommand(t, []string{"validate", file(t, "effective.yaml", effective.body)}); r.code != 0 {
		t.Errorf("the effective configuration is not valid: %+v\n%s", r, effective.body)
	}
}

// statusRow returns a dependency's cells in the table of "sidecar status".
func (s *sidecar) statusRow(t *testing.T, name string) []string {
	t.Helper()
	r := runCommand(t, []string{"status", "-c", s.path})
	if r.code != 0 || r.err != "" {
		t.Fatalf("sidecar status: %+v", r)
	}
	for line := range strings.Lines(r.out) {
		if cells := regexp.MustCompile(`\s{2,}`).Split(strings.TrimSpace(line), -1); cells[0] == name {
			return append(cells, make([]string, 13)...)
		}
	}
	t.Fatalf("sidecar status lacks %s:\n%s", name, r.out)
	return nil
}

var (
	cell = regexp.MustCompile(`(?s)<t[hd][^>]*>(.*?)</t[hd]>`)
	tag  = regexp.MustCompile(`<[^>]*>`)
)

// pageRow returns a dependency's cells on the status page.
func (s *sidecar) pageRow(t *testing.T, name string) []string {
	t.Helper()
	page := s.admin(http.MethodGet, "/")
	_, body, _ := strings.Cut(page.body, "<tbody>")
	for row := range strings.SplitSeq(body, "</tr>") {
		var cells []string
		for _, c := range cell.FindAllStringSubmatch(row, -1) {
			cells = append(cells, strings.TrimSpace(html.UnescapeString(tag.ReplaceAllString(c[1], ""))))
		}
		if len(cells) > 0 && cells[0] == name {
			return append(cells, make([]string, 14)...)
		}
	}
	t.Fatalf("the page lacks %s:\n%s", name, page.body)
	return nil
}
