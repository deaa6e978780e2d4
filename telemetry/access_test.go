package telemetry

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sidecar/proxy"
	"sidecar/resilience/breaker"
)

// call is a call that has everything.
func call(outcome proxy.Outcome) proxy.Call {
	return proxy.Call{
		Dependency: "a", Method: "GET", Path: "/x", Status: 200, Outcome: outcome, Reason: proxy.ReasonOpen,
		Source: proxy.SourceStale, Age: 37*time.Second + 900*time.Millisecond, Attempts: 2,
		Denied: proxy.DeniedBudget, Waited: 1500 * time.Microsecond, Duration: 12345678 * time.Nanosecond,
	}
}

func TestAccessSaysWhichCallsAreLogged(t *testing.T) {
	for word, want := range map[string][]proxy.Outcome{
		"off":      nil,
		"degraded": {proxy.OutcomeFailed, proxy.OutcomeFallback, proxy.OutcomeRejected, proxy.OutcomeCanceled},
		"all":      proxy.Outcomes,
	} {
		log, out := jsonLog(t)
		tele := New(Options{Log: log})
		access, err := ParseAccess(word)
		if err != nil {
			t.Fatal(err)
		}
		tele.SetAccess(access)
		for _, o := range proxy.Outcomes {
			tele.CallDone(call(o))
		}
		var got []proxy.Outcome
		for _, line := range out.lines(t) {
			outcome, _ := line["outcome"].(string)
			got = append(got, proxy.Outcome(outcome))
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s logs (-want +got):\n%s", word, d)
		}
	}
}

func TestCallLine(t *testing.T) {
	log, out := jsonLog(t)
	tele := New(Options{Log: log, Access: AccessAll})
	tele.CallDone(call(proxy.OutcomeFallback))
	tele.CallDone(proxy.Call{Dependency: "a", Method: "PUT", Path: "/y", Status: 201, Outcome: proxy.OutcomeOK, Attempts: 1, Duration: time.Second})
	tele.CallDone(proxy.Call{Dependency: "a", Method: "GET", Path: "/z", Status: 499, Outcome: proxy.OutcomeCanceled, Reason: proxy.ReasonCanceled})
	want := []map[string]any{
		{
			"level": "warn", "msg": "call", "dependency": "a", "method": "GET", "path": "/x", "status": 200.0,
			"outcome": "fallback", "reason": "open", "source": "stale", "age": 37.0, "attempts": 2.0,
			"retry_denied": "budget", "waited_ms": 1.5, "duration_ms": 12.346,
		},
		{
			"level": "info", "msg": "call", "dependency": "a", "method": "PUT", "path": "/y", "status": 201.0,
			"outcome": "ok", "attempts": 1.0, "duration_ms": 1000.0,
		},
		{
			"level": "info", "msg": "call", "dependency": "a", "method": "GET", "path": "/z", "status": 499.0,
			"outcome": "canceled", "reason": "canceled", "attempts": 0.0, "duration_ms": 0.0,
		},
	}
	got := out.lines(t)
	for _, line := range got {
		delete(line, "time")
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("lines (-want +got):\n%s", d)
	}
}

func TestLoggedPathHasNoQueryAndAnEnd(t *testing.T) {
	log, out := jsonLog(t)
	tele := New(Options{Log: log, Access: AccessAll})
	tele.CallDone(proxy.Call{Dependency: "a", Path: "/a?token=secret", Outcome: proxy.OutcomeOK})
	tele.CallDone(proxy.Call{Dependency: "a", Path: "/" + strings.Repeat("a", 1<<20), Outcome: proxy.OutcomeOK})
	lines := out.lines(t)
	if got := lines[0]["path"]; got != "/a" {
		t.Errorf("path is %q, want /a", got)
	}
	if got, _ := lines[1]["path"].(string); got != "/"+strings.Repeat("a", maxLoggedPath-1)+"…" {
		t.Errorf("a long path is logged with %d bytes", len(got))
	}
}

func TestTransitionLine(t *testing.T) {
	log, out := jsonLog(t)
	tele := New(Options{Log: log}) // Transitions are logged whatever log.access says.
	at := time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.FixedZone("", 3600))
	tele.BreakerChanged("a", breaker.Transition{
		From: breaker.Closed, To: breaker.Open, At: at, Reason: "11 of 20 calls failed", OpenUntil: at.Add(30 * time.Second),
	})
	tele.BreakerChanged("a", breaker.Transition{From: breaker.Open, To: breaker.HalfOpen, At: at, Reason: "cooldown over"})
	want := []map[string]any{
		{
			"level": "warn", "msg": "breaker changed", "dependency": "a", "from": "closed", "to": "open",
			"reason": "11 of 20 calls failed", "at": "2026-01-02T02:04:05.678Z", "open_until": "2026-01-02T02:04:35.678Z",
		},
		{
			"level": "info", "msg": "breaker changed", "dependency": "a", "from": "open", "to": "half_open",
			"reason": "cooldown over", "at": "2026-01-02T02:04:05.678Z",
		},
	}
	got := out.lines(t)
	for _, line := range got {
		delete(line, "time")
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("lines (-want +got):\n%s", d)
	}
}

func TestReloadLines(t *testing.T) {
	log, out := jsonLog(t)
	tele := New(Options{Log: log})
	tele.ReloadSucceeded(time.Now(), Changes{Added: []string{"x"}, Settings: []string{"log.level"}})
	tele.ReloadFailed(time.Now(), errors.New("a.yaml:1: x: bad\na.yaml:2: y: bad\n")) //nolint:revive // as an error of many lines comes
	got := out.lines(t)
	if len(got) != 2 || got[0]["msg"] != "configuration reloaded" || got[0]["level"] != "info" {
		t.Fatalf("lines are %v", got)
	}
	if got[0]["added"] == nil || got[0]["settings"] == nil || got[0]["removed"] != nil || got[0]["changed"] != nil {
		t.Errorf("the changes read %v", got[0])
	}
	if got[1]["level"] != "error" || got[1]["error"] != "a.yaml:1: x: bad; a.yaml:2: y: bad" {
		t.Errorf("the failure reads %v with the fields %v", got[1], slices.Sorted(maps.Keys(got[1])))
	}
}
