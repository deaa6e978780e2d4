package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func BenchmarkRows(b *testing.B) {
	for _, r := range rows() {
		for _, e := range r.entries {
			b.Run(r.name+"/"+e.who+", clock "+times(e.clocks), e.bench)
		}
	}
}

// Every library decides as its row says, and ours without an allocation. (The
// whole call allocates; the table shows how often.)
func TestRows(t *testing.T) {
	for _, r := range rows() {
		for _, e := range r.entries {
			do, i := e.make(), 0
			n := testing.AllocsPerRun(10*warmUp, func() { do(i); i++ })
			if e.ours && n != 0 && !strings.HasPrefix(r.name, "whole call") {
				t.Errorf("%s: %v allocations", r.name, n)
			}
			if !e.ours && !e.aside && r.base(e) < 0 {
				t.Errorf("%s: %s reads the clock %s, and nothing of ours does", r.name, e.who, times(e.clocks))
			}
		}
	}
}

// Ratios are taken within a round: when the whole machine is three times slower
// in one of them, they do not move.
func TestReport(t *testing.T) {
	one := row{"work", "About.", []entry{
		{who: "sidecar", ours: true}, {who: "quick"}, {who: "slow"}, {who: "other", aside: true}, {who: "sidecar", clocks: 2, ours: true},
	}}
	f := &figures{ns: [][]float64{{20, 60, 30}, {10, 30, 15}, {40, 120, 60}, {5, 15, 7.5}, {100, 300, 150}}, allocs: make([]int64, 5)}
	text, behind := results{{"work", 1}: f, {"work", 2}: f}.report([]row{one}, 3, time.Second)
	for _, line := range []string{
		"| sidecar | no | 30.0 | – | 30.0 | – | 0 |",
		"| quick | no | 15.0 | 2.00 | 15.0 | 2.00 | 0 |",
		"| slow | no | 60.0 | 0.50 | 60.0 | 0.50 | 0 |",
		"| other | no | 7.50 | 4.00 | 7.50 | 4.00 | 0 |",
		"| sidecar | twice | 150 | – | 150 | – | 0 |",
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %q in\n%s", line, text)
		}
	}
	if len(behind) != 2 || !strings.Contains(behind[0], "2.00 of quick") {
		t.Errorf("behind: %q", behind)
	}
}

func TestRewriteKeepsTheRest(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	if err := rewrite(file, "new\n"); err == nil {
		t.Error("no error for a missing file")
	}
	for _, c := range []struct{ old, want string }{
		{"a\n" + beginMark + "old\n" + endMark + "b\n", "a\n" + beginMark + "new\n" + endMark + "b\n"},
		{"a\n", ""},
	} {
		if err := os.WriteFile(file, []byte(c.old), 0o600); err != nil {
			t.Fatal(err)
		}
		err := rewrite(file, "new\n")
		got, _ := os.ReadFile(file)
		if c.want == "" {
			if err == nil {
				t.Error("no error for a page without a place")
			}
		} else if err != nil || string(got) != c.want {
			t.Errorf("got %q, %v", got, err)
		}
	}
}
