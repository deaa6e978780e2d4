package telemetry

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"sidecar/proxy"
	"sidecar/resilience/breaker"
	"sidecar/resilience/bulkhead"
)

// report runs a Telemetry's report loop and returns the lines written since
// the last call, without time, level and message.
func report(t *testing.T) (*Telemetry, func() []map[string]any) {
	log, out := jsonLog(t)
	tele := New(Options{Log: log})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); tele.Report(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return tele, func() []map[string]any {
		synctest.Wait()
		lines := out.lines(t)
		for _, line := range lines {
			if line["msg"] != "report" || line["level"] != "info" {
				t.Errorf("unexpected line %v", line)
			}
			delete(line, "time")
			delete(line, "level")
			delete(line, "msg")
		}
		return lines
	}
}

func TestReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tele, lines := report(t)
		tele.SetSource(&fakeSource{snapshots: []proxy.Snapshot{
			{Name: "a", Breaker: breaker.Snapshot{State: breaker.HalfOpen}, Bulkhead: bulkhead.Snapshot{InUse: 3}},
		}})
		tele.Add("b")
		tele.Add("a")
		tele.SetReportInterval(10 * time.Second)
		for _, c := range []proxy.Call{
			{Outcome: proxy.OutcomeOK},
			{Outcome: proxy.OutcomeFailed, Reason: proxy.ReasonStatus},
			{Outcome: proxy.OutcomeRejected, Reason: proxy.ReasonOpen, Refused: true},
			{Outcome: proxy.OutcomeFallback, Reason: proxy.ReasonProbing, Refused: true, Source: proxy.SourceStatic},
		} {
			c.Dependency = "a"
			tele.CallDone(c)
		}
		time.Sleep(10*time.Second - 1)
		if got := lines(); got != nil {
			t.Errorf("too early: %v", got)
		}
		time.Sleep(time.Nanosecond)
		line := func(name string, calls, failed, refused, fallback float64) map[string]any {
			l := map[string]any{"dependency": name, "calls": calls, "failed": failed, "refused": refused, "fallback": fallback}
			if name == "a" {
				l["state"], l["in_use"] = "half_open", 3.0
			}
			return l
		}
		want := []map[string]any{line("a", 4, 1, 2, 1), line("b", 0, 0, 0, 0)}
		if d := cmp.Diff(want, lines()); d != "" {
			t.Errorf("first report (-want +got):\n%s", d)
		}

		// What came since the last line; a name added again begins anew.
		tele.CallDone(proxy.Call{Dependency: "a", Outcome: proxy.OutcomeOK})
		tele.CallDone(proxy.Call{Dependency: "b", Outcome: proxy.OutcomeFailed})
		tele.Remove("b")
		tele.Add("b")
		time.Sleep(10 * time.Second)
		want = []map[string]any{line("a", 1, 0, 0, 0), line("b", 0, 0, 0, 0)}
		if d := cmp.Diff(want, lines()); d != "" {
			t.Errorf("second report (-want +got):\n%s", d)
		}
	})
}

func TestReportIntervalChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tele, lines := report(t)
		tele.Add("a")
		for _, step := range []struct {
			every, wait time.Duration
			want        int
		}{
			{0, time.Hour, 0},
			{time.Minute, time.Hour, 60},
			{time.Minute, time.Hour, 60}, // The same again changes nothing.
			{30 * time.Second, time.Hour, 120},
			{0, time.Hour, 0},
		} {
			tele.SetReportInterval(step.every)
			synctest.Wait()
			time.Sleep(step.wait)
			if got := len(lines()); got != step.want {
				t.Errorf("every %v: %d lines in %v, want %d", step.every, got, step.wait, step.want)
			}
		}
	})
}
