package advice_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sidecar/advice"
	"sidecar/config"
	"sidecar/history"
)

// TestEveryPatchIsValid: whatever the settings and whatever was seen, nothing
// panics, every finding is complete, and the patch is a valid file by itself
// and after a merge.
func TestEveryPatchIsValid(t *testing.T) {
	found := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		text := anyFile(t)
		c, err := config.Parse("sidecar.yaml", []byte(text), config.Process{})
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		a, ok := advice.For(c, c.Dependencies[0].Name, anyEvidence(t))
		if !ok {
			t.Fatalf("no advice for %q", c.Dependencies[0].Name)
		}
		for _, f := range a.Findings {
			found[f.Kind]++
			if f.Severity == "" || f.Title == "" || f.Evidence == "" || f.Key == "" || f.Why == "" || f.Current == f.Suggested || strings.Contains(f.Evidence, "%!") {
				t.Fatalf("finding is not complete: %+v", f)
			}
		}
		for _, s := range a.Sizing.Suggestions {
			if s.Key == "" || s.Suggested == "" || s.Why == "" || s.Current == s.Suggested || strings.Contains(s.Why, "%!") {
				t.Fatalf("suggestion is not complete: %+v", s)
			}
		}
		for _, patch := range []string{a.Sizing.Patch, merged(t, text, a.Sizing.Patch)} {
			if _, err := config.Parse("patch.yaml", []byte(patch), config.Process{}); err != nil {
				t.Fatalf("%v\n%s\nto\n%s", err, patch, text)
			}
		}
	})
	if len(found) < 6 {
		t.Errorf("only these were found: %v", found)
	}
}

// anyFile is a configuration of two dependencies.
func anyFile(t *rapid.T) string {
	pick := func(of ...string) string { return rapid.SampledFrom(of).Draw(t, "value") }
	permits := rapid.IntRange(1, 300).Draw(t, "permits")
	limits := pick("", "", fmt.Sprintf("limits: {max_concurrent: %d}\n", permits+20), fmt.Sprintf("limits: {max_concurrent: %d}\n", 5*permits+500))
	breaker := "window: " + pick("5", "20", "1000", "1s", "30s", "10m") + ", min_calls: " + pick("1", "5", "100", "5000") +
		", failure_ratio: " + pick("0", "0.1", "0.5", "1") + ", consecutive_failures: " + pick("0", "0", "3") + ", cooldown: " + pick("1s", "20s", "1m") +
		", backoff: " + pick("{factor: 1}", "{factor: 1.5, max: 1m}", "{factor: 3, max: 90s}") + ", probes: " + pick("1", "3", "10") +
		", ramp: " + pick("0s", "10s", "2m") + ", mode: " + pick("enforce", "observe", "off") + pick("", ", slow_call: {after: 200ms}")
	return limits + "log: {report_interval: " + pick("0s", "1m") + "}\n" +
		"dependencies:\n  - name: " + pick("a", `"12"`, `"true"`, `"a: b"`, "limits", `"- é ü"`) + "\n    listen: 127.0.0.1:" + pick("7001", "9900", "9901") +
		"\n    upstream: " + pick("http://a.test", "https://me:secret@a.test/x") +
		"\n    timeout: " + pick("0s", "300ms", "10s") + "\n    attempt_timeout: " + pick("0s", "100ms", "2s", "20s") +
		"\n    breaker: {" + breaker + "}" +
		fmt.Sprintf("\n    bulkhead: {max_concurrent: %d, max_waiting: %s, queue_timeout: %s}", permits, pick("0", "1", "500"), pick("0s", "1ms", "5s")) +
		"\n    failure: {statuses: " + pick("[]", `["500-599"]`, `["500-599", "!500-599"]`) + ", grpc_statuses: " + pick("[]", "[UNAVAILABLE]") + "}" +
		"\n    retry: {max_retries: " + pick("0", "1", "5") + ", budget: {ratio: " + pick("0", "0.05", "1") + ", min_per_second: " + pick("0", "1", "50") + "}}" +
		"\n    fallback: " + pick("[]", "[stale: {}]") +
		"\n    routes: " + pick("[]", "[{match: {path: /x}, timeout: 1s, retry: {max_retries: 2}}]") +
		"\n  - {name: other, listen: 127.0.0.1:7002, upstream: http://b.test}\n" +
		"admin: {listen: 127.0.0.1:9800}\nmetrics: {listen: 127.0.0.1:9801}\n"
}

// anyEvidence is evidence that need not make sense.
func anyEvidence(t *rapid.T) *history.Evidence {
	number := func(most int) int {
		return int(math.Pow(10, rapid.Float64Range(0, math.Log10(float64(most+1))).Draw(t, "number"))) - 1
	}
	e := &history.Evidence{At: time.Unix(0, 0), Window: time.Duration(number(900)) * time.Second}
	for i := range e.Counts {
		e.Counts[i] = uint64(number(1e5))
	}
	for _, d := range []*history.Durations{&e.Served, &e.Attempts, &e.Left} {
		at := rapid.IntRange(0, history.Buckets-3).Draw(t, "bucket")
		for i := range 3 {
			d[at+i] = uint32(number(1e5))
		}
	}
	for range rapid.IntRange(0, history.Steps).Draw(t, "steps") {
		e.Steps = append(e.Steps, history.Step{State: history.Closed, Peak: 1, Seconds: 5})
	}
	if n := len(e.Steps); n > 0 {
		s := history.Step{Seconds: 5, Limit: 20, State: rapid.SampledFrom([]byte{history.Closed, history.Open}).Draw(t, "state")}
		s.OK, s.Failed, s.Fallback, s.Attempts = uint32(number(1000)), uint32(number(10)), uint32(number(1000)), uint32(number(1000))
		s.Peak, s.InUse, s.Held, s.Waiting = float32(number(5000)), int32(number(100)), int32(number(100)), int32(number(5))
		for i := range e.Steps {
			if i%2 == 0 || s.Failed == 0 {
				e.Steps[i] = s
			}
		}
	}
	for range rapid.IntRange(0, 16).Draw(t, "spells") {
		e.Spells = append(e.Spells, history.Spell{Ended: e.At, Lasted: time.Duration(number(200)) * time.Second})
	}
	return e
}
