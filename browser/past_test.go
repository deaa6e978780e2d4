package browser

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestPast: the history, the advice and a drill are shown as the API gives
// them, and what they say is text.
func TestPast(t *testing.T) {
	s := start(t, "search", "catalog")
	target, err := url.Parse("http://" + s.admin)
	if err != nil {
		t.Fatal(err)
	}
	// The answers come from here, so that a quarter of an hour has passed.
	began := sync.OnceValue(func() time.Time { return time.Now().Truncate(5 * time.Second) }) // when first asked
	mux := http.NewServeMux()
	mux.HandleFunc("/api/history", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, past(began())) })
	mux.HandleFunc("/api/dependencies/search/advice", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"name":"search","window_seconds":900,"findings":[{"kind":"flapping","severity":"warning","title":"It flaps <b>",
			"evidence":"opened 9 times in 15 minutes","key":"breaker.cooldown","current":"1s","suggested":"30s","why":"Give it time."}],"sizing":{}}`)
	})
	mux.Handle("/", &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, FlushInterval: -1,
		ModifyResponse: func(r *http.Response) error {
			if r.Header.Get("Content-Type") == "text/event-stream" {
				r.Body = drilled(r.Body, time.Now().Add(time.Hour))
			}
			return nil
		},
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	s.admin = strings.TrimPrefix(server.URL, "http://")
	defer func() { s.admin = target.Host }()
	b := open(t, s)

	b.wait(part("search", "state") + " === 'closed'")
	bars := fmt.Sprintf("[...(%s).querySelectorAll('.strip rect')].map(r => r.getAttribute('class')).join()", card("search"))
	b.wait(bars + " === 'closed,open,half-open,closed'")
	until := began()
	if got, want := eval[string](b, fmt.Sprintf("(%s).querySelector('.strip').getAttribute('aria-label')", card("search"))),
		fmt.Sprintf("The last 15 minutes: open for 3 min from %s; half-open for 50 s from %s",
			until.Add(-490*time.Second).UTC().Format(time.TimeOnly), until.Add(-260*time.Second).UTC().Format(time.TimeOnly)); got != want {
		t.Errorf("the strip says %q, want %q", got, want)
	}
	b.wait(fmt.Sprintf("(%s).querySelector('[data-part=transitions]').textContent.includes('closed → open')", card("search")))
	b.wait(fmt.Sprintf("(%s).querySelector('.advice').checkVisibility()", card("search")))
	want := "It flaps <b> opened 9 times in 15 minutes. breaker.cooldown: 30s instead of 1s. Give it time."
	if got := eval[string](b, fmt.Sprintf("(%s).querySelector('[data-part=findings]').textContent", card("search"))); got != want {
		t.Errorf("the advice is %q, want %q", got, want)
	}
	if eval[bool](b, fmt.Sprintf("(%s).querySelector('.advice').checkVisibility()", card("catalog"))) {
		t.Error("there is advice for catalog, to which none was given")
	}
	b.wait(part("search", "drill") + ".startsWith('Fire drill: latency 8s on 50 % of attempts, 7 injected, 3')")
	// Something is drawn where the past is, at the left.
	painted := fmt.Sprintf(`(c => new Set(c.getContext('2d').getImageData(c.width * .3, 0, c.width * .3, c.height).data).size)((%s).querySelector('canvas'))`, card("search"))
	if n := eval[int](b, painted); n < 4 {
		t.Errorf("the chart of the past has no more than %d values of colour", n)
	}
	b.save("past")
}

// past is a history: closed, nearly four minutes open, fifty seconds half-open, and
// closed again.
func past(until time.Time) string {
	state := strings.Repeat("c", 82) + strings.Repeat("o", 46) + strings.Repeat("h", 10) + strings.Repeat("c", 42)
	column := func(closed, open string) string {
		values := make([]string, len(state))
		for i, s := range state {
			values[i] = closed
			if s == 'o' {
				values[i] = open
			}
		}
		return "[" + strings.Join(values, ",") + "]"
	}
	return fmt.Sprintf(`{"step_seconds":5,"until":%q,"dependencies":[{"name":"search","state":%q,"ok":%s,"failed":%[4]s,"fallback":%[5]s,
		"rejected":%[4]s,"canceled":%[4]s,"p50_seconds":%[6]s,"p99_seconds":%[6]s,"in_use":%[3]s,"limit":%[3]s,"waiting":%[4]s}]}`,
		until.UTC().Format("2006-01-02T15:04:05.000000Z"), state, column("20", "0"), column("0", "0"), column("0", "20"), column("0.02", "null"))
}

// drilled puts a drill of search into each status of an event stream.
func drilled(stream io.ReadCloser, until time.Time) io.ReadCloser {
	out, in := io.Pipe()
	go func() {
		lines := bufio.NewReader(stream)
		for {
			line, err := lines.ReadString('\n')
			line = strings.Replace(line, `{"name":"search",`, fmt.Sprintf(`{"name":"search","drill":{"fault":"latency 8s","share":0.5,"until":%q,"injected":7},`, until.UTC().Format(time.RFC3339)), 1)
			if _, werr := io.WriteString(in, line); err != nil || werr != nil {
				_ = in.CloseWithError(io.EOF)
				return
			}
		}
	}()
	return struct {
		io.Reader
		io.Closer
	}{out, stream}
}
