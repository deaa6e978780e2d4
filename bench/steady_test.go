package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"sidecar/bench/load"
)

// A whole run with the peers that are always here. Serving a stale copy costs no
// upstream connection; what it costs in CPU is for a quiet machine to say.
func TestStaleAnswersCostNoUpstreamConnection(t *testing.T) {
	if testing.Short() {
		t.Skip("builds four programs")
	}
	b := &bench{
		ctx: context.Background(), dir: t.TempDir(), rounds: 1, warm: 100 * time.Millisecond, length: 300 * time.Millisecond,
		results: results{}, errors: map[string]map[string]error{},
	}
	if err := b.chooseWorkloads("open-stale"); err != nil {
		t.Fatal(err)
	}
	if err := b.buildAll(); err != nil {
		t.Fatal(err)
	}
	if err := b.choosePeers("sidecar,plain,handwritten"); err != nil {
		t.Fatal(err)
	}
	if err := b.measureAll(); err != nil {
		t.Fatal(err)
	}
	b.results.compare()
	for workload, byPeer := range b.errors {
		for peer, err := range byPeer {
			t.Errorf("%s, %s: %v", workload, peer, err)
		}
	}
	m := b.results.medians()
	f := m["open-stale"]["sidecar"]
	for _, name := range []string{cpu, rps, p50, p99, p999, peakRSS, vsBare, vsProxied, vsStored} {
		if f[name] <= 0 {
			t.Errorf("%s is %g", name, f[name])
		}
	}
	for _, name := range []string{upstreamConns, upstreamCalls} {
		if v, known := f[name]; !known || v != 0 {
			t.Errorf("%s is %g (known: %v), want 0", name, v, known)
		}
	}
	if _, measured := m["open-stale"]["handwritten"]; measured {
		t.Error("the handwritten proxy has no copies to answer with")
	}
	if t.Failed() {
		t.Log(b.report())
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
