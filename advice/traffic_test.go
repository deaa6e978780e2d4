package advice_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"sidecar/advice"
)

const (
	ms     = time.Millisecond
	second = time.Second
	minute = time.Minute
)

// fitting are settings that fit calls of some 50 ms, and so give no findings.
const fitting = `
    timeout: 500ms
    attempt_timeout: 250ms
`

// quick is an upstream that is well.
var (
	quick  = answer{after: 50 * ms}
	broken = answer{after: 10 * ms, status: http.StatusServiceUnavailable}
	hangs  = answer{after: time.Hour}
)

// play is a script of traffic and what is to be said of it.
type play struct {
	name, policy string
	script       func(*world)
	want         string // the kinds found, in order
	key          string // of the finding that is meant, the last one
	change       string // its values
	evidence     string // a part of it
}

func (p *play) run(t *testing.T) {
	t.Parallel()
	got := simulate(t, p.policy, p.script)
	if found := strings.Join(kinds(&got), " "); found != p.want {
		t.Fatalf("found %q, want %q: %+v", found, p.want, got.Findings)
	}
	if p.want == "" {
		return
	}
	f := got.Findings[len(got.Findings)-1]
	if change := f.Current + " -> " + f.Suggested; f.Key != p.key || change != p.change || !strings.Contains(f.Evidence, p.evidence) {
		t.Errorf("%s: %s, %q\nwant %s: %s, %q", f.Key, change, f.Evidence, p.key, p.change, p.evidence)
	}
	if f.Title == "" || f.Why == "" || f.Severity != advice.Warning && f.Severity != advice.Info {
		t.Errorf("finding is not complete: %+v", f)
	}
}

func plays(t *testing.T, all []play) {
	for i := range all {
		t.Run(all[i].name, all[i].run)
	}
}

// outages makes the upstream fail and get well again.
func outages(n int, length time.Duration, sick answer) func(*world) {
	return func(w *world) {
		for range n {
			w.upstream(always(quick))
			w.steady(10, 2*minute, caller{})
			w.upstream(always(sick))
			w.steady(10, length, caller{})
		}
		w.upstream(always(quick))
		w.steady(10, minute, caller{})
	}
}

func TestBreakerFindings(t *testing.T) {
	const brief = fitting + "    breaker: {cooldown: 1s, jitter: 0, ramp: 0s}\n"
	chance := func(share float64) func(*world) {
		return func(w *world) {
			w.upstream(w.sometimes(share, broken, quick))
			w.steady(10, 5*minute, caller{})
		}
	}
	// A dependency that fails as soon as more than n calls are there at once.
	weak := func(n int) func(*world) {
		return func(w *world) {
			w.upstream(always(broken))
			w.steady(60, 10*second, caller{})
			w.upstream(func(*http.Request) answer {
				if w.at > n {
					return answer{after: 100 * ms, status: 503}
				}
				return answer{after: 100 * ms}
			})
			w.steady(60, 2*minute, caller{})
		}
	}
	plays(t, []play{
		{"half of the calls fail", brief, chance(0.6), "flapping", "breaker.cooldown", "1s -> 30s", "opened"},
		{"half of the calls fail, long cooldown", fitting + "    breaker: {cooldown: 30s, jitter: 0, ramp: 0s, window: 10}\n", func(w *world) {
			w.upstream(w.sometimes(0.5, broken, quick))
			w.steady(10, 12*minute, caller{})
		}, "flapping", "breaker.probes", "1 -> 3", "opened"},
		{"a tenth of the calls fails", brief, chance(0.1), "", "", "", ""},
		{"three outages", brief, outages(3, 20*second, broken), "", "", "", ""},
		{"one long outage", brief, outages(1, 5*minute, broken), "", "", "", ""},
		{"falls over in the ramp", fitting + "    breaker: {cooldown: 2s, jitter: 0, ramp: 10s, consecutive_failures: 5}\n    bulkhead: {max_waiting: 0}\n", weak(3),
			"failing_recovery", "bulkhead.max_concurrent", "20 -> 3", "recoveries in 2 minutes ended"},
		{"falls over without a ramp", fitting + "    breaker: {cooldown: 2s, jitter: 0, ramp: 0s, consecutive_failures: 3}\n    bulkhead: {max_waiting: 0}\n", weak(3),
			"failing_recovery", "breaker.ramp", "0s -> 30s", "with a ramp of 0s"},
		{"stands its load", fitting + "    breaker: {cooldown: 2s, jitter: 0, ramp: 10s, consecutive_failures: 5}\n    bulkhead: {max_waiting: 0}\n", weak(20),
			"", "", "", ""},
		{"breaker off", fitting + "    breaker: {mode: off}\n", chance(0.6), "", "", "", ""},
	})
}

func TestPredicateFindings(t *testing.T) {
	says := func(share float64, a answer) func(*world) {
		return func(w *world) {
			a.after = 50 * ms
			w.upstream(w.sometimes(share, a, quick))
			w.steady(5, 2*minute, caller{})
		}
	}
	const usual = `["500-599", "!501", "!505"]`
	const usualGRPC = `["UNAVAILABLE", "DEADLINE_EXCEEDED", "INTERNAL", "DATA_LOSS", "UNKNOWN"`
	plays(t, []play{
		{"429", fitting, says(0.3, answer{status: 429}), "blind_predicate", "failure.statuses", usual + ` -> ["500-599", "!501", "!505", "429"]`, "429: "},
		{"501", fitting, says(0.3, answer{status: 501}), "blind_predicate", "failure.statuses", usual + ` -> ["500-599", "!505"]`, "501: "},
		{"excepted range", fitting + `    failure: {statuses: ["500-599", "!502-504"]}` + "\n", says(0.3, answer{status: 503}),
			"blind_predicate", "failure.statuses", `["500-599", "!502-504"] -> ["500-599", "!502", "!504"]`, "503: "},
		{"gRPC", fitting, says(0.5, answer{grpc: "8"}), "blind_predicate", "failure.grpc_statuses",
			usualGRPC + "] -> " + usualGRPC + `, "RESOURCE_EXHAUSTED"]`, "RESOURCE_EXHAUSTED: "},
		{"429 that only a route passes", fitting + `    failure: {statuses: ["429", "500-599"]}
    routes: [{match: {path: /}, failure: {statuses: ["500-599"]}}]` + "\n", says(0.3, answer{status: 429}),
			"blind_predicate", "routes[0].failure.statuses", `["500-599"] -> ["500-599", "429"]`, "429: "},
		{"few 429", fitting, says(0.05, answer{status: 429}), "", "", "", ""},
		{"404", fitting, says(0.5, answer{status: 404}), "", "", "", ""},
		{"gRPC's NOT_FOUND", fitting, says(0.5, answer{grpc: "5"}), "", "", "", ""},
		{"503 that count", fitting, says(0.2, answer{status: 503}), "", "", "", ""},
		{"nineteen", fitting, func(w *world) {
			w.upstream(always(answer{status: 429}))
			w.steady(1, 19*second, caller{})
		}, "", "", "", ""},
	})
}

func TestDecidingFindings(t *testing.T) {
	rate := func(perSecond float64) func(*world) {
		return func(w *world) {
			w.upstream(always(quick))
			w.steady(perSecond, 4*minute, caller{})
		}
	}
	const wide = fitting + "    breaker: {window: 20s, min_calls: 50}\n"
	plays(t, []play{
		{"rare calls", wide, rate(2), "never_decides", "breaker.min_calls", "50 -> 20", "within one window of 20s"},
		{"very rare calls", wide, rate(0.25), "never_decides", "breaker.window", "20s -> 50", "min_calls asks for 50"},
		{"just enough calls", wide, rate(3), "", "", "", ""},
		{"window below min_calls", fitting + "    breaker: {window: 20, min_calls: 30}\n", rate(2), "never_decides", "breaker.min_calls", "30 -> 5", "holds 20 calls"},
		{"another rule decides", fitting + "    breaker: {window: 20, min_calls: 30, consecutive_failures: 3}\n", rate(2), "", "", "", ""},
	})
}

func TestTimeoutFindings(t *testing.T) {
	calm := func(a answer) func(*world) {
		return func(w *world) {
			w.upstream(always(a))
			w.steady(5, 3*minute, caller{})
		}
	}
	// impatient callers meet an upstream that hangs in one call of ten.
	impatient := func(leaves func(*world) time.Duration) func(*world) {
		return func(w *world) {
			w.upstream(w.sometimes(0.1, hangs, quick))
			w.steady(5, 3*minute, caller{leaves: func() time.Duration { return leaves(w) }})
		}
	}
	exactly := func(d time.Duration) func(*world) time.Duration { return func(*world) time.Duration { return d } }
	somewhen := func(w *world) time.Duration {
		w.mu.Lock()
		defer w.mu.Unlock()
		return 100*ms + time.Duration(w.random.Float64()*float64(4*second))
	}
	const patient = "    timeout: 8s\n    attempt_timeout: 8s\n    breaker: {mode: off}\n    bulkhead: {max_concurrent: 30}\n"
	plays(t, []play{
		{"the default", "", calm(quick), "long_timeout", "attempt_timeout", "10s -> 250ms", "the bound is 10s"},
		{"no bound", "    timeout: 0s\n", calm(quick), "long_timeout", "attempt_timeout", "0s -> 250ms", "the bound is none"},
		{"fitting", fitting, calm(quick), "", "", "", ""},
		{"generous", "    timeout: 2s\n    attempt_timeout: 1s\n", calm(quick), "", "", "", ""},
		{"beyond slow", "    timeout: 5s\n    breaker: {slow_call: {after: 1s}}\n", calm(answer{after: 600 * ms}), "long_timeout", "attempt_timeout", "5s -> 1.2s", "slow_call.after 1s"},
		{"a little beyond slow", "    timeout: 3s\n    breaker: {slow_call: {after: 1s}}\n", calm(answer{after: 600 * ms}), "", "", "", ""},
		{"short-tempered clients", patient, impatient(exactly(2 * second)), "impatient_callers long_timeout", "attempt_timeout", "8s -> 250ms", "8s"},
		{"people who leave", "    timeout: 8s\n    attempt_timeout: 400ms\n    breaker: {mode: off}\n", func(w *world) {
			w.upstream(w.sometimes(0.02, hangs, quick))
			w.steady(5, 3*minute, caller{leaves: func() time.Duration { return somewhen(w) }})
		}, "", "", "", ""},
		{"we are faster", fitting + "    breaker: {mode: off}\n", impatient(exactly(2 * second)), "", "", "", ""},
	})
}

func TestImpatientCallers(t *testing.T) {
	const policy = "    timeout: 1500ms\n    attempt_timeout: 1500ms\n    breaker: {mode: off}\n"
	clients := func(patience, usual time.Duration) func(*world) {
		return func(w *world) {
			w.upstream(w.sometimes(0.1, hangs, answer{after: usual}))
			w.steady(5, 3*minute, caller{leaves: func() time.Duration { return patience }})
		}
	}
	plays(t, []play{
		{"clients of a second", policy, clients(second, 200*ms), "impatient_callers", "timeout", "1.5s -> 700ms", "would have waited 1.5s"},
		{"clients who cannot wait for a good answer", policy, clients(200*ms, 190*ms), "impatient_callers", "timeout", "1.5s -> ", "would have waited"},
		{"a route is that short", policy + "    routes: [{match: {path_prefix: /x}, timeout: 900ms, attempt_timeout: 900ms}]\n", clients(second, 200*ms), "", "", "", ""},
		{"nineteen", policy, func(w *world) {
			w.upstream(always(hangs))
			w.steady(1, 19*second, caller{leaves: func() time.Duration { return second }})
		}, "", "", "", ""},
	})
}

func TestRetryFindings(t *testing.T) {
	// A part of the calls fails: always the same ones, or by chance.
	same := func(w *world) {
		w.upstream(func(r *http.Request) answer {
			if r.URL.RequestURI() == "/bad" {
				return broken
			}
			return quick
		})
		for range 60 {
			w.steady(4, second, caller{})
			w.steady(2, second, caller{target: "/bad"})
			w.steady(4, second, caller{})
		}
	}
	chance := func(w *world) {
		w.upstream(w.sometimes(0.2, broken, quick))
		w.steady(5, 3*minute, caller{})
	}
	const policy = fitting + "    breaker: {failure_ratio: 0.9}\n"
	plays(t, []play{
		{"two retries for the same fault", policy + "    retry: {max_retries: 2}\n", same, "retry_storm", "retry.max_retries", "2 -> 1", "succeeded"},
		{"budget of the minimum", policy + "    retry: {max_retries: 1}\n", same, "retry_storm", "retry.budget.min_per_second", "3 -> 1", "0 % of them succeeded"},
		{"budget by share", policy + "    retry: {max_retries: 1, budget: {ratio: 1, min_per_second: 0}}\n", same, "retry_storm", "retry.budget.ratio", "1 -> 0.1", "more load"},
		{"of a route", policy + "    routes: [{match: {path: /bad}, retry: {max_retries: 3}}]\n", same, "retry_storm", "routes[0].retry.max_retries", "3 -> 1", "more load"},
		{"retries that help", policy + "    retry: {max_retries: 2}\n", chance, "", "", "", ""},
		{"none", policy, same, "", "", "", ""},
	})
}
