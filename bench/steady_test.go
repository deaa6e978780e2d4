package main

import (
	"bytes"
	"context"
	"errors"
	"regexp"
	"testing"
	"time"

	"sidecar/bench/load"
)

// A whole run with the peers that are always here. Refusing and serving a stale
// copy cost no upstream connection; what they cost in CPU is for a quiet machine
// to say.
func TestDegradedAnswersCostNoUpstreamConnection(t *testing.T) {
	if testing.Short() {
		t.Skip("builds four programs")
	}
	b := newBench(context.Background(), t.TempDir(), 1, 300*time.Millisecond)
	if err := b.runAll("open-refused,open-stale", "sidecar,plain,handwritten"); err != nil {
		t.Fatal(err)
	}
	for workload, byPeer := range b.errors {
		for peer, err := range byPeer {
			t.Errorf("%s, %s: %v", workload, peer, err)
		}
	}
	m := b.results.medians()
	for _, workload := range []string{openRefused, openStale} {
		f := m[workload][judged]
		for _, name := range []string{cpu, rps, p50, p99, p999, peakRSS, vsBare, vsPlain, vsProxied} {
			if f[name] <= 0 {
				t.Errorf("%s: %s is %g", workload, name, f[name])
			}
		}
		for _, name := range []string{upstreamConns, upstreamCalls} {
			if v, known := f[name]; !known || v != 0 {
				t.Errorf("%s: %s is %g (known: %v), want 0", workload, name, v, known)
			}
		}
		b.samePlainBytes(t, workload)
	}
	if f := m[proxied][judged]; f[p99VsBare] <= 0 {
		t.Errorf("%s is %g", p99VsBare, f[p99VsBare])
	}
	if m[openStale][judged][vsStored] <= 0 {
		t.Error("a stale answer is not compared with a stored call")
	}
	acceptanceOf(t, b.results, map[string]string{
		"circuit open: upstream connections, stale": "| ≤ 0 | 0 | met |",
		"memory of a waiting call, 1,000 waiting":   "| < 20 KiB | – | not measured |",
	})
	if _, measured := m["open-stale"]["handwritten"]; measured {
		t.Error("the handwritten proxy has no copies to answer with")
	}
	if t.Failed() {
		t.Log(b.report())
	}
}

// What the sidecar is compared with writes the very same bytes, but for the time
// of day and the seconds that have passed.
func (b *bench) samePlainBytes(t *testing.T, workload string) {
	w, _ := find(workload)
	for _, p := range b.peers {
		if p.Name() != "plain" {
			continue
		}
		r, err := b.rig(w, p)
		if err != nil {
			t.Fatal(err)
		}
		defer r.close()
		got, err := dump(&r.target)
		if err != nil {
			t.Fatal(err)
		}
		want, date := b.answers[workload], regexp.MustCompile(`(?m)^Date: .*\n`)
		if got, want := date.ReplaceAllString(string(got), ""), date.ReplaceAllString(string(want), ""); got != want {
			t.Errorf("%s: plain writes\n%s\nand the sidecar\n%s", workload, got, want)
		}
		if !bytes.Contains(want, []byte(`details="open"`)) {
			t.Errorf("%s: the sidecar's circuit was not open:\n%s", workload, want)
		}
	}
}

// A peer that does not answer as it should counts for nothing.
func TestRefusedCallsAreNoFigures(t *testing.T) {
	refused := errors.New("503")
	for name, c := range map[string]struct {
		r     load.Result
		whole bool
	}{
		"all well":           {load.Result{Calls: 1000}, true},
		"one in a thousand":  {load.Result{Calls: 1000, Failed: 1, Err: refused}, true},
		"two in a thousand":  {load.Result{Calls: 1000, Failed: 2, Err: refused}, false},
		"nothing was called": {load.Result{}, false},
	} {
		if err := whole(c.r); (err == nil) != c.whole {
			t.Errorf("%s: %v", name, err)
		}
	}
}
