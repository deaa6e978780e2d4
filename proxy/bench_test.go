package proxy

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"sidecar/resilience/breaker"
	"sidecar/stale"
)

// nowhere is a ResponseWriter that keeps nothing.
type nowhere struct{ header http.Header }

func (w *nowhere) Header() http.Header         { return w.header }
func (w *nowhere) WriteHeader(int)             {}
func (w *nowhere) Write(p []byte) (int, error) { return len(p), nil }

// silent is an Observer that hears nothing.
type silent struct{}

func (silent) CallDone(Call)                             {}
func (silent) AttemptDone(Attempt)                       {}
func (silent) BreakerChanged(string, breaker.Transition) {}
func (silent) ShadowChanged(string, breaker.Transition)  {}
func (silent) DrillChanged(string, DrillChange)          {}

// answering is an upstream that answers at once.
func answering(body string) roundTripperFunc {
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: 200, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r, ContentLength: int64(len(body)),
			Header: http.Header{"Content-Type": {"text/plain"}, "Content-Length": {"1024"}, "Date": {time.Now().UTC().Format(http.TimeFormat)}},
			Body:   io.NopCloser(strings.NewReader(body)),
		}, nil
	}
}

// What the sidecar itself takes of a call, without a server, a network and
// telemetry.
func BenchmarkCall(b *testing.B) {
	static := Fallback{Static: &Static{Status: 200, Header: http.Header{"Content-Type": {"text/plain"}}, Body: make([]byte, 1024)}}
	for _, c := range []struct {
		name     string
		open     bool
		fallback []Fallback
	}{
		{"proxied", false, nil},
		{"refused", true, nil},
		{"static", true, []Fallback{static}},
		{"stale", true, []Fallback{{Stale: &Stale{MaxAge: time.Hour}}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := usual()
			s.Retry.MaxRetries = 2
			s.Fallback = c.fallback
			s.Transport = answering(strings.Repeat("x", 1024))
			store := stale.NewStore(1<<20, 64<<10)
			defer store.Close()
			d := New("payments", s, store, silent{})
			defer d.Close()
			r := &http.Request{
				Method: "GET", URL: &url.URL{Path: "/things"}, RequestURI: "/things", Host: "payments",
				Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Accept": {"*/*"}}, Body: http.NoBody,
			}
			d.ServeHTTP(&nowhere{http.Header{}}, r)
			if c.open {
				d.Force(breaker.ForcedOpen)
			}
			b.ReportAllocs()
			for b.Loop() {
				d.ServeHTTP(&nowhere{make(http.Header)}, r)
			}
		})
	}
}
