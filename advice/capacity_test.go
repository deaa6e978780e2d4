package advice_test

import (
	"slices"
	"testing"
	"time"

	"sidecar/advice"
)

func TestPermitFindings(t *testing.T) {
	rate := func(perSecond float64, length time.Duration, a answer) func(*world) {
		return func(w *world) {
			w.upstream(always(a))
			w.steady(perSecond, length, caller{})
		}
	}
	small := func(permits, waiting string) string {
		return fitting + "    bulkhead: {max_concurrent: " + permits + ", max_waiting: " + waiting + ", queue_timeout: 100ms}\n"
	}
	bursts := func(w *world) {
		w.upstream(always(quick))
		for range 2 * 60 {
			w.burst(20)
			time.Sleep(second)
		}
	}
	plays(t, []play{
		{"more calls than permits", small("4", "4"), rate(100, 2*minute, quick), "too_few_permits", "bulkhead.max_concurrent", "4 -> 12", "were refused for want of a permit"},
		{"as many permits as calls", small("6", "6"), rate(100, 2*minute, quick), "", "", "", ""},
		{"bursts", small("5", "5"), bursts, "too_few_permits", "bulkhead.max_waiting", "5 -> 10", "were refused"},
		{"a slow dependency", small("4", "4"), rate(30, 2*minute, answer{after: 200 * ms}), "", "", "", ""},
		{"it hangs now and then", small("10", "5") + "    breaker: {cooldown: 5s, consecutive_failures: 5}\n", outages(3, 20*second, hangs), "", "", "", ""},
		{"far too many", small("500", "10"), rate(5, 11*minute, quick), "too_many_permits", "bulkhead.max_concurrent", "500 -> 4", "the busiest second had 5 calls"},
		{"somewhat many", small("13", "10"), rate(5, 11*minute, quick), "", "", "", ""},
		{"many, seen for a short time", small("500", "10"), rate(5, 9*minute, quick), "", "", "", ""},
	})
}

func TestOutageFindings(t *testing.T) {
	const policy = fitting + "    breaker: {cooldown: 5s, jitter: 0, ramp: 0s}\n    fallback: [static: {body: '{}'}]\n"
	goesOn := func(length time.Duration) func(*world) {
		return func(w *world) {
			w.upstream(always(quick))
			w.steady(10, 2*minute, caller{})
			w.upstream(always(broken))
			w.steady(10, length, caller{})
		}
	}
	plays(t, []play{
		{"six minutes and on", policy, goesOn(6 * minute), "hidden_outage", "log.report_interval", "0s -> 1m", "it goes on"},
		{"six minutes", policy, outages(1, 6*minute, broken), "hidden_outage", "log.report_interval", "0s -> 1m", "it has ended"},
		{"four minutes", policy, goesOn(4 * minute), "", "", "", ""},
		{"six minutes without a fallback", fitting, goesOn(6 * minute), "", "", "", ""},
		{"a third of the calls", fitting + "    breaker: {mode: off}\n    fallback: [static: {body: '{}'}]\n", func(w *world) {
			w.upstream(w.sometimes(0.33, broken, quick))
			w.steady(5, 7*minute, caller{})
		}, "", "", "", ""},
	})
}

// TestNothingIsSaidOfLittle: a minute and two hundred calls are the least.
func TestNothingIsSaidOfLittle(t *testing.T) {
	got := simulate(t, "", func(w *world) {
		w.upstream(always(quick))
		w.steady(5, 30*second, caller{})
	})
	if len(got.Findings) > 0 || got.Sizing.P99Seconds != nil || slices.ContainsFunc(got.Sizing.Suggestions, func(s advice.Suggestion) bool { return s.Key != "limits.max_concurrent" }) {
		t.Errorf("after 150 calls in 30 s: %+v", got)
	}
}
