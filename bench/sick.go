package main

import (
	"time"

	"sidecar/bench/load"
	"sidecar/bench/peers"
)

// The rows of the sick dependency beside a healthy one.
const (
	sickA = "sick-neighbour"
	sickB = "sick-itself"

	sickAbout = "an app with 64 workers calls A (1 ms, 500/s) and B (50 ms, 100/s, then it hangs for 8 s)"

	sickWorkers = 64
)

// Phases of a run with a sick dependency.
const (
	sickWarm   = time.Second
	sickBefore = 3 * time.Second
	// sickTrip is twice the timeout of a call: by then the first calls that hung
	// have failed.
	sickTrip = 2 * time.Second
	// sickAfter is long enough for the first probe of the dependency to fail as
	// well, and to have its answer before the end.
	sickAfter = 7 * time.Second
)

// sick measures what callers of a healthy dependency A notice when B, behind
// the same app, begins to hang. Latency counts from the call's arrival at the
// app, the wait for a worker included.
func sick(b *bench, w *workload, p peers.Peer) (rows, error) {
	healthy, err := startUpstream(kib, time.Millisecond)
	if err != nil {
		return nil, err
	}
	defer healthy.close()
	ill, err := startUpstream(kib, 50*time.Millisecond)
	if err != nil {
		return nil, err
	}
	defer ill.close()

	addrs, stop, err := b.startGuard(w, p, healthy.addr, ill.addr)
	if err != nil {
		return nil, err
	}
	defer stop()
	streams := make([]load.Stream, len(addrs))
	for i, addr := range addrs {
		streams[i] = load.Stream{
			Target: &load.Target{Addr: addr, Request: w.request(addr), Status: 200, Length: kib},
			Rate:   []int{500, 100}[i],
		}
	}
	var reached [2]int64 // calls at B before each of the last two phases
	seen := load.Pool(b.ctx, sickWorkers, streams,
		load.Phase{Length: sickWarm}, load.Phase{Length: sickBefore},
		load.Phase{Length: sickTrip, Begin: func() { reached[0] = ill.calls.Load(); ill.become(hanging) }},
		load.Phase{Length: sickAfter, Begin: func() { reached[1] = ill.calls.Load() }})
	before, tripped, after := seen[1], seen[2], seen[3]

	f := rows{sickA: {}, sickB: {
		atUpstream: float64(reached[1] - reached[0]),
		probes:     float64(ill.calls.Load() - reached[1]),
		p99After:   milliseconds(after[1].Percentile(0.99)),
	}}
	for i, name := range []string{sickA, sickB} {
		outage := load.Sum(tripped[i], after[i])
		f[name].latencies(&outage)
		f[name][answered] = share(outage)
		f[name][p99Before] = milliseconds(before[i].Percentile(0.99))
	}
	f[sickA].ratio(p99VsBefore, p99, figures{p99: f[sickA][p99Before]})
	return f, nil
}

// startGuard starts a peer between the app and two upstreams, of which copies
// are kept of the second's answers, and returns where each is called.
func (b *bench) startGuard(w *workload, p peers.Peer, upstreams ...string) (addrs []string, stop func(), err error) {
	if _, direct := p.(peers.Direct); direct {
		return upstreams, func() {}, nil
	}
	setup := peers.Setup{Policy: w.policy}
	for i, upstream := range upstreams {
		listen, err := peers.FreeAddr()
		if err != nil {
			return nil, nil, err
		}
		addrs = append(addrs, listen)
		setup.Routes = append(setup.Routes, peers.Route{Listen: listen, Upstream: upstream, Keep: i == 1})
	}
	stop, _, err = b.start(p, &setup)
	return addrs, stop, err
}

func share(r load.Result) float64 { return float64(r.Calls) / float64(max(r.Calls+r.Failed, 1)) }
