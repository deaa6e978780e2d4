package advice_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"sidecar/advice"
	"sidecar/config"
	"sidecar/history"
)

// lived is hand-made evidence of a quarter of an hour without any trouble: the
// calls a second in the busiest second, and durations with their counts.
func lived(peak float64, durations map[time.Duration]uint32) *history.Evidence {
	e := &history.Evidence{At: time.Unix(0, 0), Window: 15 * time.Minute}
	for d, n := range durations {
		e.Served[history.Bucket(d)] += n
		e.Attempts[history.Bucket(d)] += n
		e.Counts[history.OK] += uint64(n)
		e.Counts[history.AttemptSuccess] += uint64(n)
	}
	for range history.Steps {
		e.Steps = append(e.Steps, history.Step{
			State: history.Closed, Seconds: 5, Peak: float32(peak), Limit: 20,
			Attempts: uint32(e.Counts[history.AttemptSuccess] / history.Steps),
		})
	}
	return e
}

// mostly is a latency with a 99th percentile of about slow.
func mostly(usual, slow time.Duration, n uint32) map[time.Duration]uint32 {
	return map[time.Duration]uint32{usual: n - n/50, slow: n / 50}
}

func ask(t *testing.T, policy string, e *history.Evidence) advice.Advice {
	t.Helper()
	a, ok := advice.For(parse(t, file(policy)), "a", e)
	if !ok {
		t.Fatal("no advice")
	}
	w := &world{T: t, yaml: file(policy)}
	w.checkPatch(a.Sizing.Patch)
	return a
}

// suggested lists the sizes as "key: current -> suggested".
func suggested(a *advice.Advice) []string {
	all := []string{}
	for _, s := range a.Sizing.Suggestions {
		if s.Key != "limits.max_concurrent" {
			all = append(all, s.Key+": "+s.Current+" -> "+s.Suggested)
		}
	}
	return all
}

// TestSizes works the README's example and its neighbours: 50 calls a second
// at a 99th percentile of 200 ms are 10 at once, and need 20 permits.
func TestSizes(t *testing.T) {
	const fits = "    timeout: 1s\n    attempt_timeout: 400ms\n"
	busy := func(e *history.Evidence) *history.Evidence {
		for i := range e.Steps {
			e.Steps[i].Waiting = 1
		}
		return e
	}
	held := func(e *history.Evidence, n int32) *history.Evidence {
		for i := range e.Steps {
			e.Steps[i].Held = n
		}
		return e
	}
	usual := mostly(100*ms, 200*ms, 45000)
	for _, c := range []struct {
		name, policy string
		evidence     *history.Evidence
		want         []string
	}{
		{"fits", fits, lived(50, usual), nil},
		{"the defaults' timeouts", "", lived(50, usual), []string{"attempt_timeout: 10s -> 400ms", "timeout: 10s -> 700ms"}},
		{"timeouts that cut", "    timeout: 300ms\n    attempt_timeout: 200ms\n", lived(50, usual), []string{"attempt_timeout: 200ms -> 400ms", "timeout: 300ms -> 700ms"}},
		{"room for retries", "    timeout: 500ms\n    attempt_timeout: 400ms\n    retry: {max_retries: 2}\n", lived(50, usual), []string{"timeout: 500ms -> 2s"}},
		{"too small", fits + "    bulkhead: {max_concurrent: 10}\n", busy(lived(50, usual)), []string{"bulkhead.max_concurrent: 10 -> 20"}},
		{"small and never crowded", fits + "    bulkhead: {max_concurrent: 10}\n", lived(50, usual), nil},
		{"too large", fits + "    bulkhead: {max_concurrent: 50, max_waiting: 20}\n", lived(50, usual), []string{"bulkhead.max_concurrent: 50 -> 20"}},
		{"room for streams", fits + "    bulkhead: {max_concurrent: 50, max_waiting: 30}\n", held(lived(50, usual), 30), nil},
		{"a queue too long", fits + "    bulkhead: {max_waiting: 100}\n", lived(50, usual), []string{"bulkhead.max_waiting: 100 -> 20"}},
		{"no queue at all", fits + "    bulkhead: {max_waiting: 0, queue_timeout: 10s}\n", lived(50, usual), []string{"timeout: 1s -> 400ms"}},
		{"an endless queue", fits + "    bulkhead: {queue_timeout: 0s}\n", lived(50, usual), []string{"bulkhead.queue_timeout: 0s -> 400ms"}},
		{"a window of minutes", fits + "    breaker: {window: 5m}\n", lived(50, usual), []string{"breaker.window: 5m -> 100"}},
		{"a short window of time", fits + "    breaker: {window: 10s}\n", lived(50, usual), nil},
		{"a window of a thousand", fits + "    breaker: {window: 1000, min_calls: 200}\n", lived(50, usual),
			[]string{"breaker.window: 1000 -> 100", "breaker.min_calls: 200 -> 100"}},
		{"failures in a row decide first", fits + "    breaker: {window: 1000, consecutive_failures: 5}\n", lived(50, usual), nil},
		{"too few calls", "", lived(50, mostly(100*ms, 200*ms, 199)), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := ask(t, c.policy, c.evidence)
			if got := suggested(&a); !slices.Equal(got, c.want) {
				t.Errorf("suggested %q, want %q", got, c.want)
			}
		})
	}
}

// TestTheBudgetOfAll is what the compartments add up to, and a patch carries
// the permits that make it fit.
func TestTheBudgetOfAll(t *testing.T) {
	usual := mostly(100*ms, 200*ms, 45000)
	for limits, want := range map[string]string{
		"":                             "-> 40",
		"limits: {max_concurrent: 60}": "",
		"limits: {max_concurrent: 90}": "90 -> 40",
	} {
		c := parse(t, limits+"\n"+file("    timeout: 1s\n    attempt_timeout: 400ms\n"))
		a, _ := advice.For(c, "a", lived(50, usual))
		got := ""
		for _, s := range a.Sizing.Suggestions {
			if s.Key == "limits.max_concurrent" {
				got = strings.TrimSpace(s.Current + " -> " + s.Suggested)
			}
		}
		if got != want {
			t.Errorf("with %q: %q, want %q", limits, got, want)
		}
		if want != "" != strings.Contains(a.Sizing.Patch, "limits:\n  max_concurrent: 40\n") {
			t.Errorf("with %q the patch is\n%s", limits, a.Sizing.Patch)
		}
		parse(t, a.Sizing.Patch)
	}
	// Permits that are raised raise the budget with them.
	text := "limits: {max_concurrent: 30}\n" + file(calm+"    bulkhead: {max_concurrent: 10}\n")
	e := lived(50, usual)
	each(func(_ int, s *history.Step) { s.Waiting = 1 })(e)
	a, _ := advice.For(parse(t, text), "a", e)
	if !strings.Contains(a.Sizing.Patch, "  max_concurrent: 40\n") || !strings.Contains(a.Sizing.Patch, "      max_concurrent: 20\n") {
		t.Errorf("the patch is\n%s", a.Sizing.Patch)
	}
	parse(t, merged(t, text, a.Sizing.Patch))
}

// TestPatch is a whole file, in the order of the documentation.
func TestPatch(t *testing.T) {
	text := `dependencies:
  - name: breaker
    listen: 0.0.0.0:9900
    allow_remote: true
    upstream: https://me:secret@a.test/base
    failure: {statuses: ["500-599", "!501"]}
    breaker: {window: 10m, cooldown: 1s, jitter: 0}
admin: {listen: "127.0.0.1:9800"}
`
	c := parse(t, text)
	e := lived(50, mostly(100*ms, 200*ms, 45000))
	e.Counts[history.ToClosed], e.Counts[history.ToOpen] = 9, 9
	e.Counts[history.Passed+2] = 20000
	a, ok := advice.For(c, "breaker", e)
	if !ok {
		t.Fatal("no advice")
	}
	want := `admin:
  listen: "127.0.0.1:9800"
dependencies:
  # The upstream's user information is left out: keep yours.
  - name: breaker
    listen: 0.0.0.0:9900
    allow_remote: true
    upstream: https://a.test/base
    timeout: 700ms
    attempt_timeout: 400ms
    breaker:
      window: 100
      cooldown: 30s
    failure:
      statuses: ["500-599"]
`
	if a.Sizing.Patch != want {
		t.Errorf("patch is\n%s\nwant\n%s", a.Sizing.Patch, want)
	}
	patched := parse(t, a.Sizing.Patch)
	if d := patched.Dependencies[0]; d.Timeout != 700*ms || d.Breaker.Window != (config.Window{Calls: 100}) || !d.Failure.Statuses.Match(501) {
		t.Errorf("the patch reads as %+v", d)
	}
	if _, ok := advice.For(c, "nobody", e); ok {
		t.Error("advice for nobody")
	}
}

// TestPatchAgreesWithItself: callers who leave early bound the attempts too.
func TestPatchAgreesWithItself(t *testing.T) {
	e := lived(50, mostly(300*ms, 600*ms, 45000))
	e.Left[history.Bucket(time.Second)] = 2000
	a := ask(t, "    timeout: 9s\n    attempt_timeout: 8s\n", e)
	if !strings.Contains(a.Sizing.Patch, "    timeout: 700ms\n    attempt_timeout: 700ms\n") {
		t.Errorf("patch is\n%s", a.Sizing.Patch)
	}
	for _, f := range a.Findings {
		if f.Key == "attempt_timeout" && f.Suggested != "700ms" {
			t.Errorf("a finding suggests an attempt_timeout of %s", f.Suggested)
		}
	}
}

// TestAdviceWithoutEvidence says nothing, and never a number that is none.
func TestAdviceWithoutEvidence(t *testing.T) {
	a := ask(t, "", &history.Evidence{})
	if len(a.Findings) != 0 || len(suggested(&a)) != 0 || a.Sizing.P99Seconds != nil || math.IsNaN(a.Sizing.PeakPerSecond) {
		t.Errorf("advice without evidence: %+v", a)
	}
}
