package config

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func load(t *testing.T, file string) *Config {
	t.Helper()
	c, err := Load("testdata/good/"+file, Process{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func parse(t *testing.T, text string, p Process) *Config {
	t.Helper()
	c, err := Parse("sidecar.yaml", []byte(text), p)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const oneDependency = `dependencies:
  - name: a
    listen: 127.0.0.1:7001
    upstream: http://a.internal
`

// The documented sample shows the defaults, apart from the keys that are
// absent by default.
func TestSampleShowsDefaults(t *testing.T) {
	got := load(t, "spec.yaml")
	want := load(t, "minimal.yaml")

	want.Limits.MaxConcurrent = 200
	d := &want.Dependencies[0]
	d.AttemptTimeout = 2 * time.Second
	d.Breaker.SlowCall = &SlowCall{After: time.Second, Ratio: 0.8}
	d.Fallback = []Fallback{
		{Stale: &Stale{MaxAge: 10 * time.Minute}},
		{Static: &Static{Status: 200, Headers: map[string]string{"Content-Type": "application/json"}, Body: []byte(`{"degraded":true}`)}},
	}
	route := Route{Match: Match{Methods: []string{"POST"}, Path: "/charges"}, Policy: d.Policy}
	route.Timeout = 3 * time.Second
	route.Fallback, route.OwnFallback = nil, true
	d.Routes = []Route{route}

	if !reflect.DeepEqual(got, want) {
		t.Errorf("sample and defaults differ:\n%s", cmp.Diff(effective(t, want), effective(t, got)))
	}
}

func TestMinimalFileHasDefaults(t *testing.T) {
	c := load(t, "minimal.yaml")
	got := c.Dependencies[0]
	want := DefaultDependency()
	want.Name, want.Listen, want.Upstream = got.Name, got.Listen, got.Upstream
	if !got.Equal(want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got.AttemptTimeout != 10*time.Second {
		t.Errorf("attempt_timeout is %v, want the timeout, 10s", got.AttemptTimeout)
	}
	c.Dependencies = nil
	if !c.Equal(*Default()) {
		t.Errorf("got %+v, want %+v", c, Default())
	}
	if got := c.Warnings(); len(got) != 1 {
		t.Errorf("warnings without a dependency: %q, want one", got)
	}
}

// Names and header names keep their case and dots; a configuration library
// that lower-cases keys or splits them at dots would alter both.
func TestNamesKeepCaseAndDots(t *testing.T) {
	c := load(t, "names.yaml")
	if got := c.Dependencies[0].Name; got != "Payments.V2" {
		t.Errorf("name is %q", got)
	}
	static := c.Dependencies[0].Fallback[0].Static
	want := map[string]string{"X-Reason.Code": "Down", "x-lower": "5", "X-Date": "2024-01-02"}
	if diff := cmp.Diff(want, static.Headers); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	if got, want := string(static.Body), "line one\nline two\té \n"; got != want {
		t.Errorf("body is %q, want %q", got, want)
	}
	if got := c.Dependencies[1].Upstream.String(); got != "http://[::1]:8002/a%2Fb" {
		t.Errorf("upstream is %s", got)
	}
}

func TestPrecedence(t *testing.T) {
	c := load(t, "precedence.yaml")
	a, b, e := c.Dependencies[0], c.Dependencies[1], c.Dependencies[2]
	fromDefaults := []Fallback{{Static: &Static{
		Status: 200, Headers: map[string]string{"X-From": "defaults"}, Body: []byte("sorry\n"), BodyFile: "body.txt",
	}}}
	for _, tc := range []struct {
		what      string
		got, want any
	}{
		{"defaults: timeout", a.Timeout, 4 * time.Second},
		{"defaults: attempt_timeout follows", a.AttemptTimeout, 4 * time.Second},
		{"defaults: preserve_host", a.PreserveHost, true},
		{"defaults: cooldown", a.Breaker.Cooldown, 5 * time.Second},
		{"defaults: slow_call with its own default", a.Breaker.SlowCall, &SlowCall{After: 2 * time.Second, Ratio: 0.8}},
		{"nested keys merge one by one", a.Breaker.Backoff, Backoff{Factor: 2, Max: 5 * time.Minute}},
		{"lists are replaced", a.Failure.Statuses, Statuses{{Low: 500, High: 599}}},
		{"siblings stay", a.Failure.GRPCStatuses, DefaultDependency().Failure.GRPCStatuses},
		{"defaults: fallback", a.Fallback, fromDefaults},
		{"route: timeout", a.Routes[0].Timeout, time.Second},
		{"route: attempt_timeout follows its own timeout", a.Routes[0].AttemptTimeout, time.Second},
		{"route: inherits the fallback", a.Routes[0].Fallback, fromDefaults},
		{"route: explicit attempt_timeout", a.Routes[1].AttemptTimeout, 500 * time.Millisecond},
		{"route: nested keys merge", a.Routes[1].Retry.Backoff, RetryBackoff{Base: 10 * time.Millisecond, Max: time.Second}},
		{"route: empty list", a.Routes[1].Fallback, []Fallback(nil)},
		{"route: the dependency keeps its own", a.Retry.Backoff.Max, 250 * time.Millisecond},
		{"dependency: timeout", b.Timeout, time.Duration(0)},
		{"dependency: attempt_timeout follows", b.AttemptTimeout, time.Duration(0)},
		{"dependency: preserve_host", b.PreserveHost, false},
		{"dependency: window", b.Breaker.Window, Window{Span: 30 * time.Second}},
		{"dependency: three levels", b.Breaker.Backoff, Backoff{Factor: 2, Max: time.Minute}},
		{"dependency: ratio 0 drops slow_call", b.Breaker.SlowCall, (*SlowCall)(nil)},
		{"dependency: unquoted statuses", b.Failure.Statuses, Statuses{{Low: 503, High: 503}, {Low: 500, High: 502}, {Low: 501, High: 501, Not: true}}},
		{"dependency: retry.on", b.Retry.On, []string{"502", "connect"}},
		{"dependency: max_retries stays", b.Retry.MaxRetries, 2},
		{"dependency: stale", b.Fallback, []Fallback{{Stale: &Stale{MaxAge: 10 * time.Minute}}}},
		{"route: an explicit attempt_timeout above it stays", e.Routes[0].AttemptTimeout, 3 * time.Second},
		{"another dependency: defaults untouched", e.Breaker.SlowCall, &SlowCall{After: 2 * time.Second, Ratio: 0.8}},
	} {
		if !reflect.DeepEqual(tc.got, tc.want) {
			t.Errorf("%s: got %v, want %v", tc.what, tc.got, tc.want)
		}
	}
}

func TestAliasesAndMergeKeys(t *testing.T) {
	c := load(t, "aliases.yaml")
	a, b := c.Dependencies[0], c.Dependencies[1]
	for _, tc := range []struct {
		what      string
		got, want any
	}{
		{"own key beats the merged one", b.Name, "b"},
		{"merged key", b.Upstream.Host, "a.internal"},
		{"merged scalar alias", b.Timeout, time.Second},
		{"alias", b.AttemptTimeout, time.Second},
		{"first of a merge list wins", b.Breaker.MinCalls, 4},
		{"second of a merge list", b.Breaker.Window, Window{Calls: 7}},
		{"own key beats a merge list", b.Breaker.Probes, 3},
		{"merged from defaults", b.Bulkhead.MaxConcurrent, 2},
		{"own key beside a merge", b.Bulkhead.MaxWaiting, 1},
		{"the source is untouched", a.Breaker.MinCalls, 3},
		{"the source's defaults", a.Bulkhead.MaxWaiting, 0},
	} {
		if !reflect.DeepEqual(tc.got, tc.want) {
			t.Errorf("%s: got %v, want %v", tc.what, tc.got, tc.want)
		}
	}
}

func TestEqual(t *testing.T) {
	withUser := strings.Replace(oneDependency, "http://", "http://user:s3cret@", 1)
	a, b := parse(t, withUser, Process{}), parse(t, withUser, Process{})
	if !a.Equal(*b) || !a.Dependencies[0].Equal(b.Dependencies[0]) || !cmp.Equal(a, b) {
		t.Error("the same text gives configurations that differ")
	}
	c := parse(t, strings.Replace(withUser, "s3cret", "other", 1), Process{})
	if a.Equal(*c) || a.Dependencies[0].Equal(c.Dependencies[0]) || cmp.Equal(a, c) {
		t.Error("a changed password is not seen")
	}
}

func TestStatusesMatch(t *testing.T) {
	s := DefaultDependency().Failure.Statuses
	for code, want := range map[int]bool{499: false, 500: true, 501: false, 502: true, 505: false, 599: true, 600: false} {
		if got := s.Match(code); got != want {
			t.Errorf("%v matches %d: %v, want %v", s, code, got, want)
		}
	}
	exceptionFirst := Statuses{{Low: 503, High: 503, Not: true}, {Low: 500, High: 599}}
	if exceptionFirst.Match(503) || !exceptionFirst.Match(504) {
		t.Error("an exception must hold wherever it stands")
	}
	if (Statuses{}).Match(500) {
		t.Error("an empty list matches")
	}
}

func TestRetryConditions(t *testing.T) {
	c := parse(t, oneDependency+`    retry: {"on": [reset, 500-599, "!501"]}`, Process{})
	r := c.Dependencies[0].Retry
	if !r.Includes("reset") || r.Includes("connect") {
		t.Errorf("events of %q", r.On)
	}
	if s := r.Statuses(); !s.Match(502) || s.Match(501) || s.Match(404) {
		t.Errorf("statuses of %q are %v", r.On, s)
	}
}

// Every key says what it is, because schema and documentation are made of it.
func TestEveryKeyIsDocumented(t *testing.T) {
	var visit func(path string, typ reflect.Type)
	visit = func(path string, typ reflect.Type) {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct || isScalarType(typ) || isScalarType(reflect.PointerTo(typ)) {
			return
		}
		for _, f := range fieldsOf(typ) {
			if f.doc == "" {
				t.Errorf("%s has no doc tag", join(path, f.key))
			}
			visit(join(path, f.key), typ.FieldByIndex(f.index).Type)
		}
	}
	visit("", reflect.TypeFor[Config]())
}

func TestWarnings(t *testing.T) {
	for _, tc := range []struct{ what, text, want string }{
		{"none", "", ""},
		{"min_calls above the window", "breaker: {min_calls: 21}", "can never open by ratio"},
		{"in a row instead", "breaker: {min_calls: 1000000, consecutive_failures: 3}", ""},
		{"breaker off", "breaker: {min_calls: 21, mode: off}", ""},
		{"window of time", "breaker: {min_calls: 21, window: 30s}", ""},
		{"exceptions only", `failure: {statuses: ["!501"]}`, "failure.statuses: has exceptions only"},
		{"nothing to retry", `retry: {max_retries: 1, "on": []}`, "retry.on: is empty"},
		{"body that is never sent", "fallback: [static: {status: 204, body: x}]", "fallback[0].static: a response of this status has no body"},
		{"on a route", `routes: [{match: {path: /a}, retry: {max_retries: 1, "on": []}}]`, "routes[0].retry.on: is empty"},
		{"once when inherited", `retry: {max_retries: 1, "on": []}` + "\n    routes: [{match: {path: /a}}]", ": retry.on: is empty"},
	} {
		got := parse(t, oneDependency+"    "+tc.text+"\n", Process{}).Warnings()
		if tc.want == "" && len(got) != 0 {
			t.Errorf("%s: unexpected %q", tc.what, got)
		}
		if tc.want != "" && (len(got) != 1 || !strings.Contains(got[0], tc.want)) {
			t.Errorf("%s: got %q, want one with %q", tc.what, got, tc.want)
		}
	}
}
