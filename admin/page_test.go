package admin

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sidecar/resilience/breaker"
)

// rows returns the cells of the page's table, row by row, as text.
func rows(t *testing.T, page string) [][]string {
	t.Helper()
	_, body, _ := strings.Cut(page, "<tbody>")
	body, _, ok := strings.Cut(body, "</tbody>")
	if !ok {
		t.Fatalf("no table in %s", page)
	}
	tags := regexp.MustCompile(`<[^>]*>`)
	cell := regexp.MustCompile(`(?s)<t[hd][^>]*>(.*?)</t[hd]>`)
	var table [][]string
	for row := range strings.SplitSeq(body, "</tr>") {
		var cells []string
		for _, c := range cell.FindAllStringSubmatch(row, -1) {
			cells = append(cells, tags.ReplaceAllString(c[1], ""))
		}
		if cells != nil {
			table = append(table, cells)
		}
	}
	return table
}

func TestPageShowsWhatTheAPIShows(t *testing.T) {
	f := newFake()
	f.snapshots[0].Breaker.OpenUntil = time.Now().Add(time.Hour)
	w := ask(New(options(f)), request("GET", "/", ""))
	if got := w.Header().Get("Content-Type"); w.Code != 200 || got != "text/html; charset=utf-8" {
		t.Fatalf("answer %d, %s", w.Code, got)
	}
	page := w.Body.String()
	for _, want := range []string{"1.2.3", "Configuration loaded at 2026-01-02 02:04:05 UTC", `href="/style.css"`, `<noscript><meta http-equiv="refresh" content="10"></noscript>`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	table := rows(t, page)
	if len(table) != 2 {
		t.Fatalf("the table has %d rows: %v", len(table), table)
	}
	want := "payments|127.0.0.1:7001|open|11 of 20 calls failed|3600 s|3 / 5|2|101|102|103|104|105|4 ms|1.5 s"
	if got := strings.Join(table[0], "|"); got != want {
		t.Errorf("first row is\n%s\nwant\n%s", got, want)
	}
	want = "a/b &#34;c&#34;&lt;script&gt;é?|127.0.0.1:7002|closed (observing: nothing is refused)|||0 / 0|0|0|0|0|0|0||"
	if got := strings.Join(table[1], "|"); got != want {
		t.Errorf("second row is\n%s\nwant\n%s", got, want)
	}
	if link := `href="/api/dependencies/a%2Fb%20%22c%22%3Cscript%3E%C3%A9%3F"`; !strings.Contains(page, link) {
		t.Errorf("the page lacks the link %s", link)
	}
}

// TestPageEscapesMarkup puts markup wherever words come from outside.
func TestPageEscapesMarkup(t *testing.T) {
	const markup = `"><img src=x onerror=alert(1)><script>alert(2)</script>`
	f := newFake()
	f.lastError = errors.New(markup)
	f.snapshots[0].Name = markup
	f.snapshots[0].Upstream = markup
	f.snapshots[0].Breaker.Reason = markup
	o := options(f)
	o.Version = markup
	page := ask(New(o), request("GET", "/", "")).Body.String()
	for _, tag := range []string{"<script>", "<img", "onerror=alert(1)>"} {
		if strings.Contains(page, tag) {
			t.Errorf("the page holds %s", tag)
		}
	}
	if n := strings.Count(page, "&lt;script&gt;alert(2)"); n != 4 {
		t.Errorf("the markup is shown %d times as text, want 4", n)
	}
}

func TestPageShowsAFailedReload(t *testing.T) {
	f := newFake()
	f.lastError = errors.New("x.yaml:3: bad\nx.yaml:4: worse")
	page := ask(New(options(f)), request("GET", "/", "")).Body.String()
	if !strings.Contains(page, "02:04:05 UTC, failed") || !strings.Contains(page, "<pre>x.yaml:3: bad\nx.yaml:4: worse</pre>") {
		t.Errorf("the page does not show the failure: %s", page)
	}
	if strings.Contains(page, "Configuration loaded") {
		t.Error("the page says that the configuration was loaded")
	}
}

func TestPageWithoutDependencies(t *testing.T) {
	f := newFake()
	f.snapshots = nil
	if page := ask(New(options(f)), request("GET", "/", "")).Body.String(); !strings.Contains(page, "No dependencies are configured.") {
		t.Errorf("page is %s", page)
	}
}

// TestPageObeysItsPolicy looks for what the Content-Security-Policy forbids, and
// for what the page loads.
func TestPageObeysItsPolicy(t *testing.T) {
	h := New(options(newFake()))
	page := ask(h, request("GET", "/", "")).Body.String()
	if found := regexp.MustCompile(`(?i)<script>|<style|\sstyle=|\son[a-z]+=|<form|<iframe|https?://|src="[^/]`).FindString(page); found != "" {
		t.Errorf("the page holds %q", found)
	}
	types := map[string]string{"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "txt": "text/plain; charset=utf-8"}
	for _, path := range files() {
		w := ask(h, request("GET", path, ""))
		if got := w.Header().Get("Content-Type"); w.Code != 200 || got != types[path[strings.LastIndex(path, ".")+1:]] || w.Body.Len() == 0 {
			t.Errorf("%s is answered with %d, %s", path, w.Code, got)
		}
	}
	for _, m := range regexp.MustCompile(`(?:src|href)="(/[^"]+\.(?:js|css))"`).FindAllStringSubmatch(page, -1) {
		if !slices.Contains(files(), m[1]) {
			t.Errorf("the page loads %s, which is not there", m[1])
		}
	}
	for _, path := range []string{"/index.html", "/vendor", "/vendor/", "/web/style.css"} {
		expectProblem(t, ask(h, request("GET", path, "")), 404)
	}
}

func TestBreakerInWords(t *testing.T) {
	now := time.Now()
	until := func(d time.Duration) *timestamp { u := timestamp(now.Add(d)); return &u }
	for _, c := range []struct {
		status           breakerStatus
		word, note, left string
	}{
		{newBreakerStatus(&breaker.Snapshot{}), "closed", "", ""},
		{newBreakerStatus(&breaker.Snapshot{State: breaker.HalfOpen}), "half-open", "", ""},
		{newBreakerStatus(&breaker.Snapshot{State: breaker.Open, Forced: breaker.ForcedOpen}), "open", "forced", ""},
		{newBreakerStatus(&breaker.Snapshot{Forced: breaker.ForcedClosed, Mode: breaker.Observe}), "closed", "forced", ""},
		{newBreakerStatus(&breaker.Snapshot{Mode: breaker.Off}), "closed", "off", ""},
		{breakerStatus{State: "open", OpenUntil: until(1)}, "open", "", "1 s"},
		{breakerStatus{State: "open", OpenUntil: until(29*time.Second + 1)}, "open", "", "30 s"},
		{breakerStatus{State: "open", OpenUntil: until(30 * time.Second)}, "open", "", "30 s"},
		{breakerStatus{State: "open", OpenUntil: until(-time.Minute)}, "open", "", "0 s"},
	} {
		if word, note, left := c.status.Word(), c.status.Note(), c.status.Left(now); word != c.word || note != c.note || left != c.left {
			t.Errorf("%+v reads %q %q %q, want %q %q %q", c.status, word, note, left, c.word, c.note, c.left)
		}
	}
}

func TestSecondsInWords(t *testing.T) {
	for s, want := range map[float64]string{0.0004321: "0.432 ms", 0.0312: "31.2 ms", 0.5: "500 ms", 1: "1 s", 12.34: "12.3 s", 137.4: "137 s", 4321: "4321 s"} {
		if got := seconds(&s); got != want {
			t.Errorf("%v s reads %q, want %q", s, got, want)
		}
	}
	if got := seconds(nil); got != "" {
		t.Errorf("no latency reads %q", got)
	}
}
