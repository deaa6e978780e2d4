package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidecar/resilience/breaker"
)

// payments is what the API shows of the fake's first dependency.
const payments = `{"name":"payments","listen":"127.0.0.1:7001","upstream":"https://xxxxx@payments.internal:8443/base",` +
	`"breaker":{"state":"open","mode":"enforce","forced":false,"since":"2026-01-02T02:04:05.678901Z",` +
	`"open_until":"2026-01-02T02:04:35.678901Z","reason":"11 of 20 calls failed",` +
	`"window":{"calls":20,"failures":11,"slow":1},"opened_total":2,"open_seconds_total":61.2},` +
	`"bulkhead":{"limit":5,"max_concurrent":20,"in_use":3,"waiting":2,"max_waiting":10,"oldest_wait_seconds":0.125},` +
	`"requests":{"ok":101,"failed":102,"fallback":103,"rejected":104,"canceled":105},` +
	`"latency":{"p50_seconds":0.004,"p99_seconds":1.5},` +
	`"fallbacks":{"stale":100,"static":3,"last_stale_age_seconds":37.5},` +
	`"cache":{"entries":3,"bytes":4096,"share_bytes":1048576,"oldest_seconds":37.5}}`

func TestDependencyIsShownAsSpecified(t *testing.T) {
	w := ask(New(options(newFake())), request("GET", "/api/dependencies/payments", ""))
	if d := cmp.Diff(payments+"\n", w.Body.String()); d != "" {
		t.Errorf("body (-want +got):\n%s", d)
	}
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type is %q", got)
	}
}

func TestDependenciesAreListedInOrder(t *testing.T) {
	f := newFake()
	h := New(options(f))
	var list struct{ Dependencies []json.RawMessage }
	if err := json.Unmarshal(ask(h, request("GET", "/api/dependencies", "")).Body.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Dependencies) != 2 || string(list.Dependencies[0]) != payments {
		t.Fatalf("list is %s", list.Dependencies)
	}
	var second map[string]any
	if err := json.Unmarshal(list.Dependencies[1], &second); err != nil {
		t.Fatal(err)
	}
	if second["name"] != f.snapshots[1].Name {
		t.Errorf("the name became %q", second["name"])
	}
	want := map[string]any{
		"state": "closed", "mode": "observe", "forced": false, "since": "2026-01-02T02:04:05.678901Z", "open_until": nil, "reason": "",
		"window": map[string]any{"calls": 0.0, "failures": 0.0, "slow": 0.0}, "opened_total": 0.0, "open_seconds_total": 0.0,
	}
	if d := cmp.Diff(want, second["breaker"]); d != "" {
		t.Errorf("breaker (-want +got):\n%s", d)
	}
	if d := cmp.Diff(map[string]any{"p50_seconds": nil, "p99_seconds": nil}, second["latency"]); d != "" {
		t.Errorf("latency without calls (-want +got):\n%s", d)
	}

	f.snapshots = nil
	if got := ask(h, request("GET", "/api/dependencies", "")).Body.String(); got != `{"dependencies":[]}`+"\n" {
		t.Errorf("an empty list is %q", got)
	}
}

// Whoever asks for all dependencies hears that the last reload failed, and why.
func TestDependenciesTellOfAFailedReload(t *testing.T) {
	f := newFake()
	f.snapshots = nil
	f.lastError = configError{[]Fault{{File: "x.yaml", Line: 3, Key: "a.b", Message: "must be above 0, got 0"}}}
	want := `{"dependencies":[],"reload":{"at":"2026-01-02T02:04:05.678901Z","error":"x.yaml:3: a.b: must be above 0, got 0",` +
		`"faults":[{"file":"x.yaml","line":3,"key":"a.b","message":"must be above 0, got 0"}]}}` + "\n"
	if got := ask(New(options(f)), request("GET", "/api/dependencies", "")).Body.String(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	f.lastError = errors.New("port 7001 is taken; free it")
	if got := ask(New(options(f)), request("GET", "/api/dependencies", "")).Body.String(); !strings.Contains(got, `taken; free it","faults":[]}`) {
		t.Errorf("got %s", got)
	}
}

func TestNamesAreEscapedInPaths(t *testing.T) {
	f := newFake()
	h := New(options(f))
	name := f.snapshots[1].Name
	target := "/api/dependencies/" + url.PathEscape(name)
	var got struct{ Name string }
	if err := json.Unmarshal(ask(h, request("GET", target, "")).Body.Bytes(), &got); err != nil || got.Name != name {
		t.Errorf("GET %s gives %q, %v", target, got.Name, err)
	}
	if w := ask(h, request("POST", target+"/breaker", `{"force":"open"}`)); w.Code != 200 || f.snapshots[1].Breaker.Forced != breaker.ForcedOpen {
		t.Errorf("POST %s/breaker answers %d, %s", target, w.Code, w.Body)
	}
}

func TestUnknownAddresses(t *testing.T) {
	h := New(options(newFake()))
	for _, target := range []string{
		"/nothing", "/api", "/api/", "/api/dependencies/", "/api/dependencies/nobody", "/api/dependencies/Payments",
		"/api/dependencies/payments/", "/api/dependencies/payments/other", "/index.html", "/web/index.html", "/debug/pprof/",
	} {
		expectProblem(t, ask(h, request("GET", target, "")), 404)
	}
	expectProblem(t, ask(h, request("POST", "/api/dependencies/nobody/breaker", `{"force":"open"}`)), 404)
}

func TestForce(t *testing.T) {
	f := newFake()
	h := New(options(f))
	for _, step := range []struct {
		word, state string
		forced      bool
	}{{"open", "open", true}, {"closed", "closed", true}, {"auto", "closed", false}} {
		w := ask(h, request("POST", "/api/dependencies/payments/breaker", `{"force":"`+step.word+`"}`, "Content-Type", "application/json"))
		var got struct {
			Name    string
			Breaker struct {
				State  string
				Forced bool
			}
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 {
			t.Fatalf("%s: %d, %s", step.word, w.Code, w.Body)
		}
		if got.Name != "payments" || got.Breaker.State != step.state || got.Breaker.Forced != step.forced {
			t.Errorf("%s: answers %+v", step.word, got)
		}
		if f.snapshots[0].Breaker.Forced.String() != step.word {
			t.Errorf("%s: the breaker was told %v", step.word, f.snapshots[0].Breaker.Forced)
		}
	}
}

func TestForceIsStrict(t *testing.T) {
	f := newFake()
	h := New(options(f))
	for _, body := range []string{
		"", "{}", "null", "[]", `"open"`, `{"force":"half_open"}`, `{"force":"OPEN"}`, `{"force":1}`, `{"force":null}`, `{"force":["open"]}`,
		`{"Force":"open"}`, `{"force":"open","for":"1m"}`, `{"force":"open","force":"closed"}`, `{"force":"open"`,
		`{"force":"open"} {}`, `{"force":"open"}x`, `force=open`, `{"force":{"open":"x"}}`,
	} {
		detail := expectProblem(t, ask(h, request("POST", "/api/dependencies/payments/breaker", body)), 400)
		for _, word := range []string{`"open"`, `"closed"`, `"auto"`} {
			if !strings.Contains(detail, word) {
				t.Errorf("%q: %q does not name %s", body, detail, word)
			}
		}
	}
	for _, contentType := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "json", "a;;b"} {
		r := request("POST", "/api/dependencies/payments/breaker", `{"force":"closed"}`, "Content-Type", contentType)
		expectProblem(t, ask(h, r), 415)
	}
	long := `{"force":"` + strings.Repeat(" ", maxBody) + `"}`
	expectProblem(t, ask(h, request("POST", "/api/dependencies/payments/breaker", long)), 413)
	if got := f.snapshots[0].Breaker.Forced; got != breaker.Auto {
		t.Errorf("a refused order was carried out: %v", got)
	}
	for _, contentType := range []string{"application/json", "Application/JSON; charset=utf-8"} {
		r := request("POST", "/api/dependencies/payments/breaker", ` { "force" : "closed" } `, "Content-Type", contentType)
		if got := ask(h, r).Code; got != 200 {
			t.Errorf("%s is answered with %d", contentType, got)
		}
	}
}

func TestReload(t *testing.T) {
	f := newFake()
	h := New(options(f))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	w := ask(h, request("POST", "/api/reload", "").WithContext(gone)) // The client has left: it is carried out all the same.
	if w.Code != 200 || w.Body.String() != `{"result":"success"}`+"\n" || f.reloads != 1 {
		t.Errorf("answer %d, %s after %d reloads", w.Code, w.Body, f.reloads)
	}
}

func TestReloadShowsTheFaults(t *testing.T) {
	f := newFake()
	h := New(options(f))
	type body struct {
		Error  string
		Faults []Fault
	}
	for _, c := range []struct {
		fails error
		want  body
	}{
		{
			configError{[]Fault{{"x.yaml", 3, "a.b", "must be above 0, got 0"}, {"x.yaml", 9, "c", "is unknown"}}},
			body{configError{}.Error(), []Fault{{"x.yaml", 3, "a.b", "must be above 0, got 0"}, {"x.yaml", 9, "c", "is unknown"}}},
		},
		{errors.New("port 7001 is taken"), body{"port 7001 is taken", []Fault{}}},
	} {
		f.fails = c.fails
		w := ask(h, request("POST", "/api/reload", ""))
		expectProblem(t, w, 422)
		var got body
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("body (-want +got):\n%s", d)
		}
	}
	f.fails = configError{[]Fault{{"x.yaml", 3, "a.b", "bad"}}}
	if got := ask(h, request("POST", "/api/reload", "")).Body.String(); !strings.Contains(got, `{"file":"x.yaml","line":3,"key":"a.b","message":"bad"}`) {
		t.Errorf("a fault is written as %s", got)
	}
}

func TestFaultsAreOptional(t *testing.T) {
	f := newFake()
	f.fails = errors.New("bad")
	o := options(f)
	o.Faults = nil
	w := ask(New(o), request("POST", "/api/reload", ""))
	expectProblem(t, w, 422)
	if !strings.Contains(w.Body.String(), `"faults":[]`) {
		t.Errorf("body is %s", w.Body)
	}
}

func TestConfig(t *testing.T) {
	f := newFake()
	h := New(options(f))
	w := ask(h, request("GET", "/api/config", ""))
	if w.Code != 200 || w.Body.String() != "admin: {}\n" || w.Header().Get("Content-Type") != "application/yaml" {
		t.Errorf("answer %d %v %q", w.Code, w.Header(), w.Body)
	}
	f.fails = errors.New("broken")
	expectProblem(t, ask(h, request("GET", "/api/config", "")), 500)
}

// TestMachineAddresses asks both listeners.
func TestMachineAddresses(t *testing.T) {
	f := newFake()
	o := options(f)
	for name, h := range map[string]http.Handler{"admin": New(o), "metrics": NewMetrics(o.Metrics, f.Ready)} {
		for _, ready := range []bool{true, false, true} {
			f.ready = ready
			w := ask(h, request("GET", "/readyz", ""))
			if ready && w.Code != 200 {
				t.Errorf("%s: /readyz answers %d when ready", name, w.Code)
			}
			if !ready {
				expectProblem(t, w, 503)
			}
			if got := ask(h, request("GET", "/livez", "")).Code; got != 200 {
				t.Errorf("%s: /livez answers %d with ready %v", name, got, ready)
			}
			if got := ask(h, request("GET", "/metrics", "")).Body.String(); got != "up 1\n" {
				t.Errorf("%s: /metrics answers %q", name, got)
			}
		}
	}
}

func TestMetricsListenerIsReadOnlyAndTakesAnyHost(t *testing.T) {
	o := options(newFake())
	o.Pprof = true
	h := NewMetrics(o.Metrics, o.Supervisor.Ready)
	for _, target := range []string{"/metrics", "/livez", "/readyz"} {
		if got := ask(h, request("GET", target, "", "Host", "10.1.2.3:9901")).Code; got != 200 {
			t.Errorf("%s answers %d to a pod's address", target, got)
		}
		expectProblem(t, ask(h, request("POST", target, "")), 405)
	}
	for _, target := range []string{"/", "/style.css", "/api/dependencies", "/api/config", "/api/events", "/debug/pprof/"} {
		expectProblem(t, ask(h, request("GET", target, "")), 404)
	}
	expectProblem(t, ask(h, request("POST", "/api/reload", "")), 404)
}

func TestPprofOnlyWithTheOption(t *testing.T) {
	o := options(newFake())
	for _, pprof := range []bool{false, true} {
		o.Pprof = pprof
		h := New(o)
		want := map[bool]int{false: 404, true: 200}[pprof]
		for _, target := range []string{"/debug/pprof/", "/debug/pprof/goroutine?debug=1", "/debug/pprof/cmdline", "/debug/pprof/symbol"} {
			if got := ask(h, request("GET", target, "")).Code; got != want {
				t.Errorf("with pprof %v %s answers %d, want %d", pprof, target, got, want)
			}
		}
	}
}

// TestHeadHasNoBody asks over a socket, where a body would be seen.
func TestHeadHasNoBody(t *testing.T) {
	server := httptest.NewServer(New(options(newFake())))
	defer server.Close()
	for _, target := range []string{"/", "/style.css", "/api/dependencies", "/api/dependencies/payments", "/api/config", "/api/events", "/metrics", "/livez", "/readyz"} {
		r, err := server.Client().Head(server.URL + target)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r.Body)
		r.Body.Close()
		if r.StatusCode != 200 || len(body) != 0 || err != nil || r.Header.Get("Content-Type") == "" {
			t.Errorf("HEAD %s answers %d, %v, %d bytes, %v", target, r.StatusCode, r.Header, len(body), err)
		}
	}
}
