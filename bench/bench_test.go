package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	line := "42 (a ) name) S 7 42 42 0 -1 4194304 100 0 0 0 150 50 20 5 20 0 4 0 12345 1000 200"
	s, err := parseStat([]byte(line))
	if want := (stat{parent: 7, cpu: 2250 * time.Millisecond}); err != nil || s != want {
		t.Errorf("got %+v, %v, want %+v", s, err, want)
	}
	for _, bad := range []string{"", "42 name S 7", "42 (name) S 7 42"} {
		if _, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

// What a child uses is counted while it runs and after it has ended.
func TestMeasureCountsChildren(t *testing.T) {
	before, err := measure(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	busy := exec.Command("sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; read wait")
	in, err := busy.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := busy.Start(); err != nil {
		t.Fatal(err)
	}
	used := func() time.Duration {
		now, err := measure(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		return now.cpu - before.cpu
	}
	deadline := time.Now().Add(30 * time.Second)
	for used() < 50*time.Millisecond {
		if time.Now().After(deadline) {
			t.Fatalf("a busy child does not show: %v", used())
		}
		time.Sleep(10 * time.Millisecond)
	}
	_ = in.Close()
	_ = busy.Wait()
	if used() < 50*time.Millisecond {
		t.Errorf("what the child used is lost with it: %v", used())
	}
}

// Ratios are taken within a round: when the whole machine is three times
// slower in one of them, they do not move.
func TestRatiosAreTakenWithinARound(t *testing.T) {
	r := results{}
	for round, slow := range []float64{1, 3, 1.5} {
		r.put(round, "bare", rows{"get-1k-c32": {cpu: 4 * slow, rps: 10}})
		r.put(round, "sidecar", rows{"get-1k-c32": {cpu: 6 * slow, rps: 5}, "open-stale": {cpu: 2 * slow}})
		r.put(round, "sidecar-logging", rows{"open-stale": {cpu: 3 * slow}})
	}
	r.compare()
	m := r.medians()
	for _, c := range []struct {
		workload, peer, figure string
		want                   float64
	}{
		{"get-1k-c32", "sidecar", cpu, 9},
		{"get-1k-c32", "sidecar", vsBare, 1.5},
		{"get-1k-c32", "sidecar", rpsVsBare, 0.5},
		{"open-stale", "sidecar", vsBare, 0.5},
		{"open-stale", "sidecar-logging", vsProxied, 0.5},
	} {
		if got := significant(m[c.workload][c.peer][c.figure], 6); got != c.want {
			t.Errorf("%s, %s, %s: %g, want %g", c.workload, c.peer, c.figure, got, c.want)
		}
	}
	if _, known := m["open-stale"]["sidecar"][vsStored]; known {
		t.Error("a ratio without its base")
	}
}

func TestMedianSkipsMissingRounds(t *testing.T) {
	m := median([]figures{{cpu: 1}, nil, {cpu: 4}, {cpu: 2, rps: 7}})
	if m[cpu] != 2 || m[rps] != 7 {
		t.Errorf("got %v", m)
	}
	if m := median([]figures{{cpu: 1}, {cpu: 2}}); m[cpu] != 1.5 {
		t.Errorf("of two: %v", m)
	}
}

func TestTableLeavesOutEmptyColumns(t *testing.T) {
	var out strings.Builder
	table(&out, map[string]figures{"bare": {cpu: 4.7123}, "nginx": {cpu: 1.3, upstreamConns: 0}}, []string{"nginx", "absent", "bare"})
	want := `| peer | CPU s / 100,000 | upstream conns |
|---|---:|---:|
| nginx | 1.3 | 0 |
| bare | 4.71 | – |
`
	if out.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", out.String(), want)
	}
}

func TestFiguresAsJSON(t *testing.T) {
	text, err := json.Marshal(figures{cpu: 4.712345, upstreamConns: 0, rps: 123456})
	if want := `{"cpu_s_per_100k":4.712,"rps":123500,"upstream_conns":0}`; err != nil || string(text) != want {
		t.Errorf("got %s, %v, want %s", text, err, want)
	}
}

// Every row names workloads that exist, and a request that says what it is.
func TestWorkloadsHangTogether(t *testing.T) {
	seen := map[string]bool{}
	for _, w := range workloads {
		if seen[w.name] {
			t.Errorf("%s: twice", w.name)
		}
		seen[w.name] = true
		for _, other := range []string{w.against, w.with} {
			if _, known := find(other); other != "" && !known {
				t.Errorf("%s: names %q", w.name, other)
			}
		}
		if request := string(w.request("h")); !strings.Contains(request, " HTTP/1.1\r\nHost: h\r\n") {
			t.Errorf("%s: %q", w.name, request)
		}
	}
}
