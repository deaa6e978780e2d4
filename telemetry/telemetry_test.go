package telemetry

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sidecar/proxy"
	"sidecar/resilience/breaker"
)

var _ proxy.Observer = (*Telemetry)(nil)

func TestEventsAreCounted(t *testing.T) {
	tele := New(Options{})
	tele.Add("a")
	calls := []proxy.Call{
		{Outcome: proxy.OutcomeOK, Duration: 4 * time.Millisecond, Attempts: 1},
		{Outcome: proxy.OutcomeOK, Duration: time.Hour, Stream: true},
		{Outcome: proxy.OutcomeFailed, Reason: proxy.ReasonTimeout, Duration: 2 * time.Second, Denied: proxy.DeniedBudget},
		{Outcome: proxy.OutcomeRejected, Reason: proxy.ReasonQueueTimeout, Refused: true, Waited: 250 * time.Millisecond},
		{Outcome: proxy.OutcomeFallback, Reason: proxy.ReasonOpen, Refused: true, Source: proxy.SourceStale, Age: time.Minute},
		{Outcome: proxy.OutcomeFallback, Reason: proxy.ReasonStatus, Source: proxy.SourceStatic},
		{Outcome: proxy.OutcomeCanceled, Reason: proxy.ReasonCanceled},
		{Outcome: proxy.OutcomeFailed, Reason: proxy.ReasonRequest},
	}
	for _, c := range calls {
		c.Dependency = "a"
		tele.CallDone(c)
	}
	attempts := []proxy.Attempt{
		{Result: proxy.ResultSuccess, Headers: 4 * time.Millisecond},
		{Result: proxy.Result(proxy.ReasonTimeout), Headers: time.Second},
		{Result: proxy.Result(proxy.ReasonTimeout), Headers: time.Second, Retry: true},
	}
	for _, a := range attempts {
		a.Dependency = "a"
		tele.AttemptDone(a)
	}
	for _, to := range []breaker.State{breaker.Open, breaker.HalfOpen, breaker.Open} {
		tele.BreakerChanged("a", breaker.Transition{To: to})
	}
	if served, age, ok := tele.Fallbacks("a"); served[proxy.SourceStale] != 1 || served[proxy.SourceStatic] != 1 || age != time.Minute || !ok {
		t.Errorf("fallbacks are %v, the last copy was %v old (%v)", served, age, ok)
	}
	got := scrape(t, tele)
	expect(t, got, map[string]float64{
		`sidecar_requests_total{dependency="a",outcome="ok"}`:                     2,
		`sidecar_requests_total{dependency="a",outcome="failed"}`:                 2,
		`sidecar_requests_total{dependency="a",outcome="rejected"}`:               1,
		`sidecar_requests_total{dependency="a",outcome="fallback"}`:               2,
		`sidecar_requests_total{dependency="a",outcome="canceled"}`:               1,
		`sidecar_request_duration_seconds_count{dependency="a"}`:                  7,
		`sidecar_request_duration_seconds_sum{dependency="a"}`:                    2.004,
		`sidecar_request_duration_seconds_bucket{dependency="a",le="0.0025"}`:     5,
		`sidecar_request_duration_seconds_bucket{dependency="a",le="0.005"}`:      6,
		`sidecar_rejections_total{dependency="a",reason="queue_timeout"}`:         1,
		`sidecar_rejections_total{dependency="a",reason="open"}`:                  1,
		`sidecar_rejections_total{dependency="a",reason="queue_full"}`:            0,
		`sidecar_fallbacks_total{dependency="a",reason="open",source="stale"}`:    1,
		`sidecar_fallbacks_total{dependency="a",reason="status",source="static"}`: 1,
		`sidecar_fallbacks_total{dependency="a",reason="status",source="stale"}`:  0,
		`sidecar_stale_age_seconds_count{dependency="a"}`:                         1,
		`sidecar_stale_age_seconds_sum{dependency="a"}`:                           60,
		`sidecar_retries_denied_total{dependency="a",reason="budget"}`:            1,
		`sidecar_bulkhead_wait_seconds_count{dependency="a"}`:                     1,
		`sidecar_bulkhead_wait_seconds_sum{dependency="a"}`:                       0.25,
		`sidecar_attempts_total{dependency="a",result="success"}`:                 1,
		`sidecar_attempts_total{dependency="a",result="timeout"}`:                 2,
		`sidecar_attempt_duration_seconds_sum{dependency="a"}`:                    2.004,
		`sidecar_retries_total{dependency="a"}`:                                   1,
		`sidecar_breaker_transitions_total{dependency="a",to="open"}`:             2,
		`sidecar_breaker_transitions_total{dependency="a",to="half_open"}`:        1,
		`sidecar_breaker_transitions_total{dependency="a",to="closed"}`:           0,
	})
	want := map[proxy.Outcome]uint64{
		proxy.OutcomeOK: 2, proxy.OutcomeFailed: 2, proxy.OutcomeRejected: 1, proxy.OutcomeFallback: 2, proxy.OutcomeCanceled: 1,
	}
	if d := cmp.Diff(want, tele.Counts("a")); d != "" {
		t.Errorf("counts (-want +got):\n%s", d)
	}
}

func TestUnknownDependencyIsHarmless(t *testing.T) {
	tele := New(Options{})
	before := len(scrape(t, tele))
	tele.CallDone(proxy.Call{Dependency: "x", Outcome: proxy.OutcomeOK})
	tele.AttemptDone(proxy.Attempt{Dependency: "x", Result: proxy.ResultSuccess})
	tele.BreakerChanged("x", breaker.Transition{To: breaker.Open})
	tele.Remove("x")
	if tele.Counts("x") != nil {
		t.Error("an unknown dependency has counts")
	}
	if _, _, ok := tele.Latency("x"); ok {
		t.Error("an unknown dependency has a latency")
	}
	if after := len(scrape(t, tele)); after != before {
		t.Errorf("series went from %d to %d", before, after)
	}
}

// TestRemoveAndAddAgain scrapes through twenty reloads that remove and re-add
// a dependency beside one that stays.
func TestRemoveAndAddAgain(t *testing.T) {
	tele := New(Options{})
	tele.SetSource(&fakeSource{snapshots: []proxy.Snapshot{{Name: "goes"}, {Name: "stays"}}})
	tele.Add("stays")
	without := len(scrape(t, tele))
	ok := func(name string) { tele.CallDone(proxy.Call{Dependency: name, Outcome: proxy.OutcomeOK}) }
	for i := range 20 {
		tele.Add("goes")
		tele.Add("goes") // Once more changes nothing.
		ok("goes")
		tele.Add("stays")
		ok("stays")
		tele.BreakerChanged("goes", breaker.Transition{To: breaker.Open})
		expect(t, scrape(t, tele), map[string]float64{
			`sidecar_requests_total{dependency="goes",outcome="ok"}`:          1,
			`sidecar_request_duration_seconds_count{dependency="goes"}`:       1,
			`sidecar_breaker_transitions_total{dependency="goes",to="open"}`:  1,
			`sidecar_requests_total{dependency="stays",outcome="ok"}`:         float64(i + 1),
			`sidecar_request_duration_seconds_count{dependency="stays"}`:      float64(i + 1),
			`sidecar_breaker_transitions_total{dependency="stays",to="open"}`: 0,
		})
		tele.Remove("goes")
		ok("goes") // A call that ends late.
		after := scrape(t, tele)
		for name := range after {
			if strings.Contains(name, `"goes"`) {
				t.Fatalf("%s is still there", name)
			}
		}
		if len(after) != without {
			t.Fatalf("%d series, want %d", len(after), without)
		}
	}
}

// TestCallersCannotMakeSeries sends what scanners send.
func TestCallersCannotMakeSeries(t *testing.T) {
	tele := New(Options{Access: AccessAll})
	tele.Add("a")
	before := len(scrape(t, tele))
	for i := range 5000 {
		tele.CallDone(proxy.Call{
			Dependency: "a", Path: fmt.Sprintf("/%d", i), Method: fmt.Sprintf("M%d", i%500), Status: 200 + i%400,
			Outcome: proxy.Outcomes[i%len(proxy.Outcomes)],
		})
	}
	// Words outside the fixed sets, were the proxy ever to send some.
	tele.CallDone(proxy.Call{Dependency: "a", Outcome: "x", Reason: "y", Refused: true, Denied: "z"})
	tele.CallDone(proxy.Call{Dependency: "a", Outcome: proxy.OutcomeFallback, Source: "x", Reason: "y"})
	tele.CallDone(proxy.Call{Dependency: "a", Outcome: proxy.OutcomeFallback, Source: proxy.SourceStale, Reason: "y"})
	tele.AttemptDone(proxy.Attempt{Dependency: "a", Result: "x"})
	tele.BreakerChanged("a", breaker.Transition{To: 7})
	if after := len(scrape(t, tele)); after != before {
		t.Errorf("series went from %d to %d", before, after)
	}
}

// TestConcurrentUse counts from many goroutines while dependencies come and go
// and scrapes run, and checks that nothing is lost.
func TestConcurrentUse(t *testing.T) {
	const workers, each = 8, 500
	tele := New(Options{})
	tele.SetSource(&fakeSource{snapshots: []proxy.Snapshot{{Name: "a"}, {Name: "b"}}})
	tele.Add("a")
	var work, beside sync.WaitGroup
	stop := make(chan struct{})
	for _, f := range []func(){
		func() { tele.Add("b"); tele.Remove("b") },
		func() {
			if _, err := tele.Registry().Gather(); err != nil {
				t.Error(err)
			}
		},
		func() { tele.Latency("a"); tele.Counts("b") },
		func() { tele.SetAccess(AccessAll); tele.SetAccess(AccessOff) },
	} {
		beside.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					f()
				}
			}
		})
	}
	for range workers {
		work.Go(func() {
			for i := range each {
				name := []string{"a", "b"}[i%2]
				tele.CallDone(proxy.Call{
					Dependency: name, Duration: time.Millisecond, Waited: 1,
					Outcome: proxy.Outcomes[rand.IntN(len(proxy.Outcomes))],
				})
				tele.AttemptDone(proxy.Attempt{Dependency: name, Result: proxy.ResultSuccess, Retry: true})
				tele.BreakerChanged(name, breaker.Transition{To: breaker.Open})
			}
		})
	}
	work.Wait()
	close(stop)
	beside.Wait()

	var sum uint64
	for _, n := range tele.Counts("a") {
		sum += n
	}
	const calls = workers * each / 2
	if sum != calls {
		t.Errorf("the outcomes add up to %d, want %d", sum, calls)
	}
	expect(t, scrape(t, tele), map[string]float64{
		`sidecar_request_duration_seconds_count{dependency="a"}`:      calls,
		`sidecar_bulkhead_wait_seconds_count{dependency="a"}`:         calls,
		`sidecar_attempts_total{dependency="a",result="success"}`:     calls,
		`sidecar_retries_total{dependency="a"}`:                       calls,
		`sidecar_breaker_transitions_total{dependency="a",to="open"}`: calls,
	})
}

func TestOrdinaryCallsDoNotAllocate(t *testing.T) {
	for _, access := range []Access{AccessOff, AccessDegraded} {
		tele := New(Options{Access: access})
		tele.Add("a")
		call := proxy.Call{Dependency: "a", Method: "GET", Path: "/", Outcome: proxy.OutcomeOK, Duration: time.Millisecond, Waited: 1}
		attempt := proxy.Attempt{Dependency: "a", Result: proxy.ResultSuccess, Headers: time.Millisecond}
		if n := testing.AllocsPerRun(1000, func() { tele.CallDone(call) }); n != 0 {
			t.Errorf("CallDone allocates %v times with access %v", n, access)
		}
		if n := testing.AllocsPerRun(1000, func() { tele.AttemptDone(attempt) }); n != 0 {
			t.Errorf("AttemptDone allocates %v times with access %v", n, access)
		}
	}
}

func BenchmarkCall(b *testing.B) {
	tele := New(Options{Access: AccessDegraded})
	tele.Add("payments")
	call := proxy.Call{Dependency: "payments", Method: "GET", Path: "/", Outcome: proxy.OutcomeOK, Duration: time.Millisecond}
	attempt := proxy.Attempt{Dependency: "payments", Result: proxy.ResultSuccess, Headers: time.Millisecond}
	b.ReportAllocs()
	for b.Loop() {
		tele.AttemptDone(attempt)
		tele.CallDone(call)
	}
}

// Every reason for which the proxy may let a fallback answer is counted:
// before, one that stood in for a call whose own deadline had passed was not.
func TestEveryFallbackReasonIsCounted(t *testing.T) {
	tele := New(Options{})
	tele.Add("a")
	want := map[string]float64{}
	for _, source := range proxy.Sources {
		for _, why := range append([]proxy.Reason{proxy.ReasonDeadline}, proxy.Degraders...) {
			tele.CallDone(proxy.Call{Dependency: "a", Outcome: proxy.OutcomeFallback, Reason: why, Source: source})
			want[fmt.Sprintf(`sidecar_fallbacks_total{dependency="a",reason=%q,source=%q}`, why, source)]++
		}
	}
	expect(t, scrape(t, tele), want)
}
