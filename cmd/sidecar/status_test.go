package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// apiAnswer is what the admin API says of dependencies in many states.
const apiAnswer = `{"dependencies":[
	{"name":"well","listen":"127.0.0.1:7001","breaker":{"state":"closed","mode":"enforce","window":{"calls":20}},
	 "bulkhead":{"limit":20,"in_use":3},"requests":{"ok":5},"latency":{"p50_seconds":0.004,"p99_seconds":1.5}},
	{"name":"worse","listen":"127.0.0.1:7002","breaker":{"state":"closed","mode":"enforce","window":{"calls":20,"failures":4}}},
	{"name":"probing","listen":"127.0.0.1:7003","breaker":{"state":"half_open","mode":"enforce"}},
	{"name":"forced","listen":"127.0.0.1:7004","breaker":{"state":"open","mode":"enforce","forced":true}},
	{"name":"日本","listen":"127.0.0.1:7005","breaker":{"state":"open","mode":"enforce","reason":"11 of 20 calls failed\u001b[2J",
	 "open_until":"2026-01-02T03:04:15Z","window":{"calls":20,"failures":11}},"bulkhead":{"limit":20,"in_use":20,"waiting":7}},
	{"name":"seen","listen":"127.0.0.1:7006","breaker":{"state":"open","mode":"observe"}}],
	"reload":{"at":"2026-01-02T03:00:00Z","error":"a.yaml:1: b: c\na.yaml:2: d: e\nf\ng\nh"}}`

var statusNow = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func apiSays(t *testing.T) answer {
	t.Helper()
	a, err := readAnswer([]byte(apiAnswer))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// The sickest dependency comes first: by state, then by failures, then as
// configured. Wide names keep the columns straight, and nothing moves the
// cursor.
func TestTable(t *testing.T) {
	a := apiSays(t)
	want := []string{
		"NAME     LISTEN          STATE            IN USE  WAITING  OK  FAILED  FALLBACK  REJECTED  CANCELED  P50  P99   WHY",
		"日本     127.0.0.1:7005  open (11s left)  20/20   7        0   0       0         0         0         -    -     11 of 20 calls failed\ufffd[2J",
		"forced   127.0.0.1:7004  open (forced)    0/0     0        0   0       0         0         0         -    -",
		"seen     127.0.0.1:7006  open (observe)   0/0     0        0   0       0         0         0         -    -",
		"probing  127.0.0.1:7003  half_open        0/0     0        0   0       0         0         0         -    -",
		"worse    127.0.0.1:7002  closed           0/0     0        0   0       0         0         0         -    -",
		"well     127.0.0.1:7001  closed           3/20    0        5   0       0         0         0         4ms  1.5s",
	}
	if d := cmp.Diff(want, table(a.Dependencies, totals(statusNow), 0, false)); d != "" {
		t.Errorf("the table (-want +got):\n%s", d)
	}
	colours := strings.Join(table(a.Dependencies, totals(statusNow), 0, true), "\n")
	for _, part := range []string{
		"\x1b[1mNAME\x1b[0m", "\x1b[1;31mopen (11s left)\x1b[0m", "\x1b[1;31mopen (forced)\x1b[0m", "\x1b[33mopen (observe)\x1b[0m",
		"\x1b[33mhalf_open\x1b[0m", "\x1b[32mclosed\x1b[0m",
	} {
		if !strings.Contains(colours, part) {
			t.Errorf("the coloured table lacks %q", part)
		}
	}
}

// However narrow the terminal, no line is wider, and the name and the state
// are there as long as they fit.
func TestTable_Narrow(t *testing.T) {
	a := apiSays(t)
	for width := 1; width <= 140; width++ {
		for _, columns := range [][]column{totals(statusNow), rates(statusNow, a.Dependencies, time.Second)} {
			lines := table(a.Dependencies, columns, width, false)
			for _, l := range lines {
				if n := columnsOf(l); n > width {
					t.Errorf("width %d: a line of %d columns: %q", width, n, l)
				}
			}
			if first := lines[1]; width >= 24 && (!strings.HasPrefix(first, "日本") || !strings.Contains(first, "open (11s left)")) {
				t.Errorf("width %d: %q", width, first)
			}
			if width >= 60 && !strings.Contains(lines[1], "11 of 20") {
				t.Errorf("width %d: no reason in %q", width, lines[1])
			}
		}
	}
}

func TestPerSecond(t *testing.T) {
	for _, c := range []struct {
		now, before uint64
		passed      time.Duration
		want        string
	}{
		{10, 10, time.Second, "0"}, {15, 10, 2 * time.Second, "2.5"}, {20, 10, time.Second, "10"}, {1234, 0, time.Second, "1234"},
		{9, 10, time.Second, "-"}, {10, 0, 0, "-"}, {199, 100, 10 * time.Second, "9.9"}, {1, 0, 100 * time.Second, "0"},
	} {
		if got := perSecond(c.now, c.before, c.passed); got != c.want {
			t.Errorf("perSecond(%d, %d, %v) = %s, want %s", c.now, c.before, c.passed, got, c.want)
		}
	}
}

// Why the last reload failed is told in a few lines.
func TestReloadLines(t *testing.T) {
	a := apiSays(t)
	a.Reload.At = statusNow.Local()
	want := []string{
		"", "The last reload, at " + statusNow.Local().Format(time.DateTime) + ", failed; what ran before runs on:",
		"a.yaml:1: b: c", "a.yaml:2: d: e", "f", "… and 2 more; `sidecar validate FILE` shows them",
	}
	if d := cmp.Diff(want, (&screen{}).reloadLines(&a, 0)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got := (&screen{}).reloadLines(&answer{}, 0); got != nil {
		t.Errorf("without a failed reload: %q", got)
	}
}

// TestWatch: a table every second; rates between two answers, none after a
// restart or an answer that failed to come; the end of the context ends it.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		ok := []uint64{100, 105, 0, 3, 3, 23}
		ask := func(context.Context) ([]byte, answer, error) {
			i := asked
			asked++
			if i == 4 {
				return nil, answer{}, errors.New("is the sidecar running?")
			}
			a, err := readAnswer(fmt.Appendf(nil, `{"dependencies":[{"name":"a","breaker":{"state":"closed","mode":"enforce"},"requests":{"ok":%d}}]}`, ok[i]))
			return nil, a, err
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5500*time.Millisecond)
		defer cancel()
		var out bytes.Buffer
		begun := time.Now()
		if err := (&screen{out: &out}).watch(ctx, ask); err != nil {
			t.Fatal(err)
		}
		if passed := time.Since(begun); passed != 5500*time.Millisecond || asked != 6 {
			t.Errorf("ended after %v and %d questions", passed, asked)
		}
		frames := strings.Split(strings.TrimSuffix(out.String(), "\n\n"), "\n\nsidecar status")
		var got []string
		for _, f := range strings.SplitAfter(out.String(), "\n") {
			if cells := strings.Fields(f); len(cells) > 5 && cells[0] == "a" {
				got = append(got, cells[4])
			}
		}
		if d := cmp.Diff([]string{"-", "5", "-", "3", "-", "10"}, got); d != "" {
			t.Errorf("calls a second (-want +got):\n%s\n%s", d, out.String())
		}
		if strings.Count(out.String(), "is the sidecar running?") != 1 || strings.Contains(out.String(), "\x1b") || len(frames) < 5 {
			t.Errorf("the blocks are\n%s", out.String())
		}
	})
}

// The answer as it is goes to programs, a line each; an error ends them.
func TestWatch_JSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		ask := func(context.Context) ([]byte, answer, error) {
			if asked++; asked == 3 {
				return nil, answer{}, errTold
			}
			return []byte(`{"dependencies":[]}` + "\n"), answer{}, nil
		}
		var out bytes.Buffer
		err := (&screen{out: &out, json: true}).watch(t.Context(), ask)
		if want := strings.Repeat(`{"dependencies":[]}`+"\n", 2); !errors.Is(err, errTold) || out.String() != want {
			t.Errorf("got %v, %q", err, out.String())
		}
	})
}
