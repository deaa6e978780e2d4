package admin

import (
	"strings"
	"testing"
	"time"

	"sidecar/proxy"
	"sidecar/resilience/breaker"
	"sidecar/resilience/bulkhead"
)

// Proposed settings are shown beside the live ones, and only where there are
// any.
func TestShadowIsShown(t *testing.T) {
	f := newFake()
	f.snapshots[0].Shadow = &proxy.ShadowSnapshot{
		Since:       opened,
		Breaker:     breaker.Snapshot{State: breaker.HalfOpen, Reason: "cooldown over", Calls: 5, Failures: 4, Slow: 3, OpenedTotal: 6},
		Bulkhead:    bulkhead.Snapshot{Limit: 7, MaxConcurrent: 8, InUse: 1, Waiting: 2, MaxWaiting: 3, OldestWait: time.Second},
		WouldReject: map[proxy.Reason]uint64{proxy.ReasonOpen: 10, proxy.ReasonQueueFull: 11},
		WouldAdmit:  map[proxy.Reason]uint64{proxy.ReasonQueueTimeout: 12},
		BothAdmit:   13, BothRefuse: 14,
	}
	h := New(options(f))
	const want = `"shadow":{"since":"2026-01-02T02:04:05.678901Z","state":"half_open","open_until":null,"reason":"cooldown over",` +
		`"window":{"calls":5,"failures":4,"slow":3},"opened_total":6,` +
		`"bulkhead":{"limit":7,"max_concurrent":8,"in_use":1,"waiting":2,"max_waiting":3,"oldest_wait_seconds":1},` +
		`"would_reject":{"open":10,"queue_full":11},"would_admit":{"queue_timeout":12},"agreed":{"admit":13,"refuse":14}}`
	if got := ask(h, request("GET", "/api/dependencies/payments", "")).Body.String(); !strings.Contains(got, want) {
		t.Errorf("the API shows\n%s\nwant in it\n%s", got, want)
	}
	if got := ask(h, request("GET", f.pathOfSecond(), "")).Body.String(); strings.Contains(got, "shadow") {
		t.Errorf("a shadow that nobody proposed: %s", got)
	}
	page := ask(h, request("GET", "/", "")).Body.String()
	const line = "shadow: half-open; would reject 21, would admit 12, agrees on 27"
	if strings.Count(page, "shadow:") != 1 || !strings.Contains(rows(t, page)[0][2], line) {
		t.Errorf("the first row is %q, want in it %q; the page has it %d times", rows(t, page)[0], line, strings.Count(page, "shadow:"))
	}
}

func (f *fake) pathOfSecond() string { return (&status{Name: f.snapshots[1].Name}).Path() }
