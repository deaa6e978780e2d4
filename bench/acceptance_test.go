package main

import (
	"strings"
	"testing"
)

// acceptanceOf looks at lines of the acceptance by what they are about.
func acceptanceOf(t *testing.T, r results, want map[string]string) {
	t.Helper()
	var out strings.Builder
	acceptance(&out, r)
	for about, rest := range want {
		if line := "| " + about + " " + rest + "\n"; !strings.Contains(out.String(), line) {
			t.Errorf("no line %q in\n%s", line, &out)
		}
	}
}

// The verdict follows from the figures of the run: the same line is met, not
// met or not measured.
func TestAcceptanceFollowsTheFigures(t *testing.T) {
	r := results{}
	acceptanceOf(t, r, map[string]string{
		"all protections on: CPU, × bare":  "| ≤ 1.05 | – | not measured |",
		"all protections on: CPU, × nginx": "| as it is | – | not measured |",
	})
	// The machine is three times slower in the second round.
	for round, slow := range []float64{1, 3, 1} {
		r.put(round, "bare", rows{proxied: {cpu: 4 * slow, p99: slow}})
		r.put(round, "nginx", rows{proxied: {cpu: 1 * slow}})
		r.put(round, "caddy", rows{proxied: {cpu: 8 * slow}})
		r.put(round, "handwritten", rows{proxied: {cpu: 4.2 * slow}})
		r.put(round, judged, rows{
			proxied: {cpu: 4.2 * slow, p99: 1.2 * slow},
			sickB:   {answered: 0.9995, p99After: 5, atUpstream: 20},
		})
	}
	r.compare()
	acceptanceOf(t, r, map[string]string{
		"all protections on: CPU, × bare":                         "| ≤ 1.05 | 1.05 | met |",
		"all protections on: p99 at 2,000 calls/s, × bare":        "| ≤ 1.1 | 1.2 | **not met** |",
		"all protections on: CPU, × handwritten":                  "| < 1 | 1 | **not met** |",
		"all protections on: CPU, × Caddy":                        "| < 1 | 0.525 | met |",
		"all protections on: CPU, × Traefik":                      "| < 1 | – | not measured |",
		"all protections on: CPU, × nginx":                        "| as it is | 4.2 | reported |",
		"sick dependency: share of B's calls answered, by copies": "| ≥ 0.999 | 0.9995 | met |",
		"sick dependency: B's p99 after the trip":                 "| < 5 ms | 5 ms | **not met** |",
		"sick dependency: calls that reach it":                    "| ≤ 20 | 20 | met |",
	})
}

// A criterion that names no row or no peer could never be measured.
func TestCriteriaNameWhatIsMeasured(t *testing.T) {
	peers := map[string]bool{"": true, "handwritten": true, "caddy": true, "traefik": true, "nginx": true, "haproxy": true}
	seen := map[string]bool{}
	for _, c := range criteria {
		if _, known := find(c.workload); !known {
			t.Errorf("%s: no workload %q", c.about, c.workload)
		}
		if !peers[c.over] {
			t.Errorf("%s: no peer %q", c.about, c.over)
		}
		if seen[c.about] {
			t.Errorf("%s: twice", c.about)
		}
		seen[c.about] = true
	}
}

func TestParseBenchmark(t *testing.T) {
	f, err := parseBenchmark([]byte("goos: linux\nBenchmarkRefused-2   \t 5311610\t        63.97 ns/op\t       0 B/op\t       1 allocs/op\nPASS\n"))
	if err != nil || f[nsPerCall] != 63.97 || f[allocs] != 1 {
		t.Errorf("got %v, %v", f, err)
	}
	if _, err := parseBenchmark([]byte("PASS\n")); err == nil {
		t.Error("no error without a benchmark")
	}
}
