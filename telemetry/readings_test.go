package telemetry

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sidecar/history"
	"sidecar/proxy"
	"sidecar/resilience/breaker"
	"sidecar/resilience/bulkhead"
	"sidecar/stale"
)

// TestReadings: each counter arrives at its own place, and the histograms hold
// what they say.
func TestReadings(t *testing.T) {
	tele := New(Options{})
	if got := tele.Readings(); got != nil {
		t.Errorf("readings without a source: %v", got)
	}
	source := &fakeSource{}
	since := time.Now()
	source.set(
		stale.Snapshot{},
		proxy.Snapshot{Name: "unknown"},
		proxy.Snapshot{
			Name: "a", InFlight: 9, Breaker: breaker.Snapshot{State: breaker.HalfOpen, Forced: breaker.ForcedOpen, Since: since},
			Bulkhead: bulkhead.Snapshot{InUse: 3, Limit: 5, MaxConcurrent: 20, Waiting: 2},
		},
	)
	tele.SetSource(source)
	tele.Add("a")
	want := history.Reading{
		Name: "a", InFlight: 9, State: breaker.HalfOpen, Forced: true, Since: since, InUse: 3, Limit: 5, Permits: 20, Waiting: 2,
	}
	call := func(n int, c proxy.Call) {
		c.Dependency, c.Duration = "a", time.Duration(n)*time.Second
		for range n {
			tele.CallDone(c)
			if !c.Stream {
				want.Calls[history.Bucket(c.Duration)]++
			}
		}
	}
	attempt := func(n int, a proxy.Attempt) {
		a.Dependency, a.Headers = "a", time.Duration(n)*time.Millisecond
		for range n {
			tele.AttemptDone(a)
		}
	}
	count := func(c history.Counter, n uint64) { want.Counts[c] += n }

	call(1, proxy.Call{Outcome: proxy.OutcomeOK, Waited: 250 * time.Millisecond})
	want.Served[history.Bucket(750*time.Millisecond)]++
	call(2, proxy.Call{Outcome: proxy.OutcomeOK, Stream: true})
	call(8, proxy.Call{Outcome: proxy.OutcomeOK, Status: 429})
	call(9, proxy.Call{Outcome: proxy.OutcomeOK, Drill: "latency 8s"})
	count(history.OK, 20)
	call(3, proxy.Call{Outcome: proxy.OutcomeFailed, Reason: proxy.ReasonDeadline, Denied: proxy.DeniedDeadline})
	want.Left[history.Bucket(3*time.Second)] += 3
	count(history.Failed, 3)
	count(history.DeniedDeadline, 3)
	call(4, proxy.Call{Outcome: proxy.OutcomeCanceled, Reason: proxy.ReasonCanceled, Status: 499})
	want.Left[history.Bucket(4*time.Second)] += 4
	call(5, proxy.Call{Outcome: proxy.OutcomeCanceled, Reason: proxy.ReasonCanceled, Status: 200})
	count(history.Canceled, 9)
	call(6, proxy.Call{Outcome: proxy.OutcomeFallback, Reason: proxy.ReasonProbing, Refused: true, Source: proxy.SourceStatic})
	count(history.Fallback, 6)
	count(history.FromStatic, 6)
	count(history.RefusedProbing, 6)
	call(7, proxy.Call{Outcome: proxy.OutcomeRejected, Reason: proxy.ReasonQueueTimeout, Refused: true})
	count(history.Rejected, 7)
	count(history.RefusedQueueTimeout, 7)

	attempt(1, proxy.Attempt{Result: proxy.ResultSuccess, Status: 200})
	attempt(2, proxy.Attempt{Result: proxy.ResultSuccess, Status: 429, Retry: true})
	attempt(6, proxy.Attempt{Result: proxy.ResultSuccess, Status: 200, Drill: proxy.FaultLatency})
	attempt(3, proxy.Attempt{Result: proxy.ResultSuccess, Status: 200, GRPC: 15})
	want.Attempts[history.Bucket(time.Millisecond)]++
	attempt(4, proxy.Attempt{Result: proxy.Result(proxy.ReasonStatus), Status: 503, Retry: true})
	attempt(5, proxy.Attempt{Result: proxy.ResultCanceled})
	count(history.AttemptSuccess, 12)
	count(history.AttemptStatus, 4)
	count(history.AttemptCanceled, 5)
	count(history.Retries, 6)
	count(history.RetriesSucceeded, 2)
	count(history.Passed, 2)
	count(history.Passed+history.Counter(len(history.ErrorAnswers)-1), 3)

	for n, to := range []breaker.State{breaker.Closed, breaker.HalfOpen, breaker.Open} {
		for range n + 1 {
			tele.BreakerChanged("a", breaker.Transition{To: to})
		}
	}
	count(history.ToClosed, 1)
	count(history.ToHalfOpen, 2)
	count(history.ToOpen, 3)

	got := tele.Readings()
	if len(got) != 1 {
		t.Fatalf("%d readings, want one", len(got))
	}
	if d := cmp.Diff(&want, got[0]); d != "" {
		t.Errorf("reading (-want +got):\n%s", d)
	}
}

// TestWordsStandInTheOrderOfTheCounters: readings are copied by their places.
func TestWordsStandInTheOrderOfTheCounters(t *testing.T) {
	tele := New(Options{})
	tele.Add("a")
	tele.SetSource(&fakeSource{snapshots: []proxy.Snapshot{{Name: "a"}}})
	place := func(make func()) history.Counter {
		before := tele.Readings()[0].Counts
		make()
		after := tele.Readings()[0].Counts
		for i := history.Counter(0); int(i) < history.Counters; i++ {
			if after[i] != before[i] {
				return i
			}
		}
		return -1
	}
	for word, want := range map[proxy.Result]history.Counter{
		"success": history.AttemptSuccess, "status": history.AttemptStatus, "connect": history.AttemptConnect, "reset": history.AttemptReset,
		"timeout": history.AttemptTimeout, "protocol": history.AttemptProtocol, "canceled": history.AttemptCanceled,
	} {
		if at := place(func() { tele.AttemptDone(proxy.Attempt{Dependency: "a", Result: word}) }); at != want {
			t.Errorf("%s is counted at %d, want %d", word, at, want)
		}
	}
	for word, want := range map[proxy.Outcome]history.Counter{
		"ok": history.OK, "failed": history.Failed, "fallback": history.Fallback, "rejected": history.Rejected, "canceled": history.Canceled,
	} {
		if at := place(func() { tele.CallDone(proxy.Call{Dependency: "a", Outcome: word}) }); at != want {
			t.Errorf("%s is counted at %d, want %d", word, at, want)
		}
	}
	for word, want := range map[proxy.Reason]history.Counter{
		"open": history.RefusedOpen, "probing": history.RefusedProbing,
		"queue_full": history.RefusedQueueFull, "queue_timeout": history.RefusedQueueTimeout,
	} {
		if at := place(func() { tele.CallDone(proxy.Call{Dependency: "a", Refused: true, Reason: word}) }); at != want {
			t.Errorf("%s is counted at %d, want %d", word, at, want)
		}
	}
	for word, want := range map[proxy.Denial]history.Counter{
		"budget": history.DeniedBudget, "body": history.DeniedBody, "method": history.DeniedMethod,
		"breaker": history.DeniedBreaker, "deadline": history.DeniedDeadline,
	} {
		if at := place(func() { tele.CallDone(proxy.Call{Dependency: "a", Denied: word}) }); at != want {
			t.Errorf("%s is counted at %d, want %d", word, at, want)
		}
	}
}
