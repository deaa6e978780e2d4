package proxy

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sidecar/resilience/breaker"
)

func static(status int, body string) Fallback {
	return Fallback{Static: &Static{Status: status, Header: http.Header{"Content-Type": {"text/x"}}, Body: []byte(body)}}
}

func fallbacks(all ...Fallback) func(*Settings) {
	return func(s *Settings) { s.Fallback = all }
}

// wantHeader compares all headers of an answer.
func (a *answer) wantHeader(t *testing.T, want http.Header) {
	t.Helper()
	if diff := cmp.Diff(want, a.header); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
}

// The first fallback that has an answer gives it.
func TestFallbackOrder(t *testing.T) {
	stale := Fallback{Stale: &Stale{MaxAge: time.Hour}}
	for _, c := range []struct {
		name   string
		chain  []Fallback
		primed bool
		body   string
		source Source
	}{
		{"stale first", []Fallback{stale, static(200, "own")}, true, "copy", SourceStale},
		{"nothing stale", []Fallback{stale, static(200, "own")}, false, "own", SourceStatic},
		{"static first", []Fallback{static(200, "own"), stale}, true, "own", SourceStatic},
		{"two statics", []Fallback{static(200, "one"), static(200, "two")}, false, "one", SourceStatic},
		{"nothing at all", []Fallback{stale}, false, "it", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, fallbacks(c.chain...), func(r *rig) {
				if c.primed {
					r.up.will(reply{body: text("copy")})
					r.get("/x")
				}
				r.up.will(reply{status: 500, body: text("it")})
				if got := r.get("/x"); got.body != c.body {
					r.Errorf("got %q, want %q", got.body, c.body)
				}
				h := r.lastCall()
				if want := map[bool]Outcome{true: OutcomeFallback, false: OutcomeFailed}[c.source != ""]; h.Source != c.source || h.Outcome != want || h.Reason != ReasonStatus {
					r.Errorf("heard %s %s %q, want %s %s status", h.Outcome, h.Reason, h.Source, want, c.source)
				}
			})
		})
	}
}

// A write is made up only where a route with a fallback of its own says so.
func TestFallbackByMethod(t *testing.T) {
	own := Policy{Timeout: time.Second, Failure: usual().Failure, Fallback: []Fallback{static(202, "own")}}
	routes := func(s *Settings) {
		s.Fallback = own.Fallback
		s.Routes = []Route{
			{Methods: []string{"POST", "GET"}, Path: "/own", OwnFallback: true, Policy: own},
			{Methods: []string{"POST"}, Path: "/inherited", Policy: own},
			{Path: "/any", OwnFallback: true, Policy: own},
		}
	}
	for _, c := range []struct {
		method, path string
		substituted  bool
	}{
		{"GET", "/", true},
		{"HEAD", "/", true},
		{"POST", "/", false},
		{"PUT", "/", false},
		{"OPTIONS", "/", false},
		{"POST", "/own", true},
		{"PUT", "/own", false},
		{"POST", "/inherited", false},
		{"POST", "/any", false},
		{"GET", "/any", true},
	} {
		bubble(t, routes, func(r *rig) {
			r.up.will(reply{fails: errReset})
			got := r.call(caller{method: c.method, target: c.path})
			if substituted := got.status == 202; substituted != c.substituted {
				r.Errorf("%s %s: got %d, substituted should be %v", c.method, c.path, got.status, c.substituted)
			}
		})
	}
}

// The headers of a static answer, for each kind of trouble.
func TestStaticHeaders(t *testing.T) {
	for _, c := range []struct {
		up     reply
		status string
		reason string
	}{
		{reply{noConn: true, fails: errRefused}, "error=connection_refused", "connect"},
		{reply{noConn: true, fails: errTLS}, "error=tls_protocol_error", "connect"},
		{reply{noConn: true, fails: errDial}, "error=connection_timeout", "timeout"},
		{reply{fails: errReset}, "error=connection_terminated", "reset"},
		{reply{fails: errSwitch}, "error=http_protocol_error", "protocol"},
		{reply{after: forever}, "error=http_response_timeout", "timeout"},
		{reply{status: 500}, "received-status=500", "status"},
	} {
		bubble(t, fallbacks(static(200, "own")), func(r *rig) {
			r.up.will(c.up)
			got := r.get("/")
			got.wantHeader(t, http.Header{
				"Content-Type": {"text/x"}, "Content-Length": {"3"},
				"Proxy-Status":     {`sidecar; ` + c.status + `; details="` + c.reason + `"`},
				"Sidecar-Degraded": {"static; reason=" + c.reason},
			})
		})
	}
}

// E8: no body where none is allowed.
func TestStaticWithoutBody(t *testing.T) {
	bubble(t, fallbacks(static(200, "own")), func(r *rig) {
		r.up.will(reply{fails: errReset})
		got := r.call(caller{method: "HEAD"})
		got.want(t, 200, "", 0)
		if got.header.Get("Content-Length") != "3" {
			r.Errorf("Content-Length %q, want 3", got.header.Get("Content-Length"))
		}
	})
	bubble(t, fallbacks(Fallback{Static: &Static{Status: 204, Body: []byte("own")}}), func(r *rig) {
		r.up.will(reply{fails: errReset})
		got := r.get("/")
		got.want(t, 204, "", 0)
		if _, ok := got.header["Content-Length"]; ok {
			r.Error("a 204 has a Content-Length")
		}
	})
}

// A static 503 says when to come again, unless the operator did.
func TestStatic503(t *testing.T) {
	for want, header := range map[string]http.Header{"2": nil, "7": {"Retry-After": {"7"}}} {
		f := Fallback{Static: &Static{Status: 503, Header: header}}
		bubble(t, both(trips(1), fallbacks(f), func(s *Settings) { s.Breaker.Cooldown = 2 * time.Second }), func(r *rig) {
			r.up.will(reply{fails: errReset})
			r.get("/")
			if got := r.get("/").header["Retry-After"]; len(got) != 1 || got[0] != want {
				r.Errorf("Retry-After %q, want %s", got, want)
			}
		})
	}
}

// The sidecar's own answers: problem+json, Proxy-Status, Retry-After, and
// never an address of the upstream.
func TestProblemHeaders(t *testing.T) {
	for _, c := range []struct {
		name   string
		up     reply
		status string
	}{
		{"refused", reply{noConn: true, fails: errRefused}, `sidecar; error=connection_refused; details="connect"`},
		{"no name", reply{noConn: true, fails: &dialError{errReset}}, `sidecar; error=destination_ip_unroutable; details="connect"`},
		{"timeout", reply{after: forever}, `sidecar; error=http_response_timeout; details="timeout"`},
	} {
		bubble(t, nil, func(r *rig) {
			r.up.will(c.up)
			got := r.get("/")
			got.wantHeader(t, http.Header{
				"Content-Type": {"application/problem+json"}, "Content-Length": {itoa(len(got.body))}, "Proxy-Status": {c.status},
			})
			if strings.Contains(got.body, "internal") || strings.Contains(got.body, "upstream") {
				r.Errorf("%s: the upstream shows in %q", c.name, got.body)
			}
		})
	}
}

// Retry-After is the time left of an open circuit, rounded up; a second for
// everything else.
func TestRetryAfterOfRefusals(t *testing.T) {
	bubble(t, both(trips(1), func(s *Settings) { s.Breaker.Cooldown = 10 * time.Second }), func(r *rig) {
		r.up.will(reply{fails: errReset})
		r.get("/")
		for _, c := range []struct {
			at   time.Duration
			want string
		}{{0, "10"}, {1, "10"}, {time.Second, "9"}, {9 * time.Second, "1"}, {10*time.Second - 1, "1"}} {
			time.Sleep(c.at - time.Since(r.d.Snapshot().Breaker.Since))
			got := r.get("/")
			got.wantHeader(t, http.Header{
				"Content-Type": {"application/problem+json"}, "Content-Length": {itoa(len(openBody))},
				"Proxy-Status": {`sidecar; error=destination_unavailable; details="open"`}, "Retry-After": {c.want},
			})
		}
		r.d.Force(breaker.ForcedOpen)
		if h := r.get("/").header.Get("Retry-After"); h != "1" {
			r.Errorf("forced open: Retry-After %s, want 1", h)
		}
	})
}

// E1: once the answer has begun nothing is put in its place.
func TestNoFallbackAfterHeaders(t *testing.T) {
	for _, length := range []int64{100, -1} {
		bubble(t, both(fallbacks(static(200, "FB")), retries(3)), func(r *rig) {
			half := strings.Repeat("x", 50)
			r.up.will(reply{length: length, body: []step{{text: half}, {err: errReset}}})
			got := r.get("/")
			if !got.aborted || got.body != half || r.up.count() != 1 {
				r.Errorf("got %q, aborted=%v, %d attempts", got.body, got.aborted, r.up.count())
			}
			if h := r.lastCall(); h.Outcome != OutcomeFailed || h.Source != "" {
				r.Errorf("heard %s %q, want failed without fallback", h.Outcome, h.Source)
			}
			r.wantEvidence(failure)
		})
	}
}

// What is the caller's to mend gets no fallback.
func TestNoFallbackForBadRequests(t *testing.T) {
	bubble(t, both(fallbacks(static(200, "FB")), func(s *Settings) { s.MaxRequestBytes = 2 }), func(r *rig) {
		for status, c := range map[int]caller{
			400: {header: http.Header{"Upgrade": {"h2c"}}},
			413: {body: text("123")},
			408: {body: text("1"), length: 2},
		} {
			if got := r.call(c); got.status != status {
				r.Errorf("got %d, want %d", got.status, status)
			}
		}
	})
}
