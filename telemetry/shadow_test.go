package telemetry

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sidecar/proxy"
	"sidecar/resilience/breaker"
)

// Only a dependency with a proposal has series of one; they go with it, and
// those that stay never fall when a changed proposal counts from 0 again.
func TestShadowSeries(t *testing.T) {
	tele := New(Options{})
	tele.Add("a")
	tele.Add("b")
	source := &fakeSource{snapshots: []proxy.Snapshot{
		{Name: "a", Shadow: &proxy.ShadowSnapshot{
			Breaker:     breaker.Snapshot{State: breaker.Open},
			Transitions: map[breaker.State]uint64{breaker.Open: 2, breaker.HalfOpen: 1},
			WouldReject: map[proxy.Reason]uint64{proxy.ReasonOpen: 5, proxy.ReasonQueueFull: 3},
			WouldAdmit:  map[proxy.Reason]uint64{proxy.ReasonQueueTimeout: 4},
			BothAdmit:   90, BothRefuse: 7,
		}},
		{Name: "b"},
	}}
	tele.SetSource(source)
	want := map[string]float64{
		`sidecar_shadow_breaker_state{dependency="a"}`:                            2,
		`sidecar_shadow_breaker_transitions_total{dependency="a",to="open"}`:      2,
		`sidecar_shadow_breaker_transitions_total{dependency="a",to="half_open"}`: 1,
		`sidecar_shadow_breaker_transitions_total{dependency="a",to="closed"}`:    0,
		`sidecar_shadow_would_reject_total{dependency="a",reason="open"}`:         5,
		`sidecar_shadow_would_reject_total{dependency="a",reason="probing"}`:      0,
		`sidecar_shadow_would_reject_total{dependency="a",reason="queue_full"}`:   3,
		`sidecar_shadow_would_admit_total{dependency="a",reason="queue_timeout"}`: 4,
		`sidecar_shadow_agreed_total{decision="admit",dependency="a"}`:            90,
		`sidecar_shadow_agreed_total{decision="refuse",dependency="a"}`:           7,
	}
	expect(t, scrape(t, tele), want)

	source.snapshots[0].Shadow = &proxy.ShadowSnapshot{
		WouldReject: map[proxy.Reason]uint64{proxy.ReasonOpen: 1}, BothAdmit: 2,
	}
	want[`sidecar_shadow_breaker_state{dependency="a"}`] = 0
	want[`sidecar_shadow_would_reject_total{dependency="a",reason="open"}`] = 6
	want[`sidecar_shadow_agreed_total{decision="admit",dependency="a"}`] = 92
	got := scrape(t, tele)
	expect(t, got, want)

	source.snapshots[0].Shadow = nil
	got = scrape(t, tele)
	for series := range got {
		if strings.HasPrefix(series, "sidecar_shadow_") {
			t.Errorf("%s is there without a proposal", series)
		}
	}
}

// A shadow's transition is logged once, at info, and cannot be taken for one
// of the live circuit: neither in the log nor among the events and counters.
func TestShadowLine(t *testing.T) {
	log, out := jsonLog(t)
	tele := New(Options{Log: log})
	tele.Add("a")
	next := tele.Events().Subscribe(t.Context())
	at := time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)
	tele.ShadowChanged("a", breaker.Transition{To: breaker.Open, At: at, Reason: "3 failures in a row", OpenUntil: at.Add(time.Second)})
	got := out.lines(t)
	delete(got[0], "time")
	want := []map[string]any{{
		"level": "info", "msg": "shadow breaker changed, nothing is refused", "dependency": "a", "from": "closed", "to": "open",
		"reason": "3 failures in a row", "at": "2026-01-02T03:04:05.678Z", "open_until": "2026-01-02T03:04:06.678Z",
	}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("lines (-want +got):\n%s", d)
	}
	expect(t, scrape(t, tele), map[string]float64{`sidecar_breaker_transitions_total{dependency="a",to="open"}`: 0})
	tele.ReloadSucceeded(at, Changes{})
	if name, _, err := next(t.Context()); err != nil || name != "reload" {
		t.Errorf("the first event is %q (%v), want the reload", name, err)
	}
}
