package telemetry

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sidecar/proxy"
)

// What a drill does is counted as the real thing, and beside it as a drill.
func TestDrillSeries(t *testing.T) {
	tele := New(Options{})
	tele.Add("a")
	tele.Add("b")
	source := &fakeSource{snapshots: []proxy.Snapshot{{Name: "a", Drill: &proxy.DrillSnapshot{}}, {Name: "b"}}}
	tele.SetSource(source)
	for _, a := range []proxy.Attempt{
		{Result: proxy.ResultSuccess},
		{Result: proxy.ResultSuccess, Drill: proxy.FaultLatency},
		{Result: proxy.Result(proxy.ReasonTimeout), Drill: proxy.FaultLatency, Withheld: true},
		{Result: proxy.Result(proxy.ReasonConnect), Drill: proxy.FaultRefuse, Withheld: true},
	} {
		a.Dependency = "a"
		tele.AttemptDone(a)
	}
	expect(t, scrape(t, tele), map[string]float64{
		`sidecar_attempts_total{dependency="a",result="success"}`:      2,
		`sidecar_attempts_total{dependency="a",result="timeout"}`:      1,
		`sidecar_attempts_total{dependency="a",result="connect"}`:      1,
		`sidecar_drill_injected_total{dependency="a",fault="latency"}`: 2,
		`sidecar_drill_injected_total{dependency="a",fault="refuse"}`:  1,
		`sidecar_drill_injected_total{dependency="a",fault="error"}`:   0,
		`sidecar_drill_withheld_total{dependency="a"}`:                 2,
		`sidecar_drill_active{dependency="a"}`:                         1,
		`sidecar_drill_active{dependency="b"}`:                         0,
		`sidecar_drill_withheld_total{dependency="b"}`:                 0,
	})
}

// Beginning and end are warnings and events of their own.
func TestDrillLines(t *testing.T) {
	log, out := jsonLog(t)
	tele := New(Options{Log: log})
	next := tele.Events().Subscribe(t.Context())
	at := time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)
	c := proxy.DrillChange{At: at, DrillSnapshot: proxy.DrillSnapshot{
		Drill: proxy.Drill{Fault: proxy.FaultLatency, Latency: 8 * time.Second, Share: 0.5, For: 30 * time.Second}, Until: at.Add(30 * time.Second),
	}}
	tele.DrillChanged("a", c)
	c.At, c.Ended, c.Injected = at.Add(time.Second), proxy.DrillStopped, 7
	tele.DrillChanged("a", c)

	got := out.lines(t)
	for _, line := range got {
		delete(line, "time")
	}
	want := []map[string]any{
		{
			"level": "warn", "msg": "drill begun through the admin listener: faults are injected", "dependency": "a",
			"fault": "latency 8s", "share": 0.5, "until": "2026-01-02T03:04:35.678Z",
		},
		{
			"level": "warn", "msg": "drill ended", "dependency": "a", "fault": "latency 8s", "share": 0.5,
			"until": "2026-01-02T03:04:35.678Z", "reason": "stopped", "injected": 7.0,
		},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("lines (-want +got):\n%s", d)
	}
	for _, want := range []string{
		`{"at":"2026-01-02T03:04:05.678Z","dependency":"a","ended":null,"fault":"latency 8s","share":0.5,"until":"2026-01-02T03:04:35.678Z","injected":0}`,
		`{"at":"2026-01-02T03:04:06.678Z","dependency":"a","ended":"stopped","fault":"latency 8s","share":0.5,"until":"2026-01-02T03:04:35.678Z","injected":7}`,
	} {
		name, data, err := next(t.Context())
		if err != nil || name != "drill" || string(data) != want {
			t.Errorf("heard %s %s (%v), want %s", name, data, err, want)
		}
	}
}

// The line of a call that met a drill says so.
func TestDrilledCallIsLogged(t *testing.T) {
	log, out := jsonLog(t)
	tele := New(Options{Log: log, Access: AccessAll})
	tele.CallDone(proxy.Call{Outcome: proxy.OutcomeOK, Drill: "error 503"})
	tele.CallDone(proxy.Call{Outcome: proxy.OutcomeOK})
	lines := out.lines(t)
	if _, there := lines[1]["drill"]; lines[0]["drill"] != "error 503" || there {
		t.Errorf("logged %v", lines)
	}
}
