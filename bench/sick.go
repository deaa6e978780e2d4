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

	routes := []peers.Route{{Upstream: healthy.addr}, {Upstream: ill.addr, Keep: true}}
	if _, direct := p.(peers.Direct); direct {
		routes[0].Listen, routes[1].Listen = healthy.addr, ill.addr
	} else {
		for i := range routes {
			if routes[i].Listen, err = peers.FreeAddr(); err != nil {
				return nil, err
			}
		}
		stop, _, err := b.start(p, w.policy, routes...)
		if err != nil {
			return nil, err
		}
		defer stop()
	}
	streams := make([]load.Stream, len(routes))
	for i, r := range routes {
		streams[i] = load.Stream{
			Target: &load.Target{Addr: r.Listen, Request: w.request(r.Listen), Status: 200, Length: kib},
			Rate:   []int{500, 100}[i],
		}
	}
	load.Pool(b.ctx, sickWorkers, max(b.warm, time.Second), streams...)
	calls := ill.calls.Load()
	ill.become(hanging)
	results := load.Pool(b.ctx, sickWorkers, max(3*b.length, 10*time.Second), streams...)

	a, bs := figures{}, figures{atUpstream: float64(ill.calls.Load() - calls)}
	a.latencies(&results[0])
	bs.latencies(&results[1])
	a[answered] = share(results[0])
	bs[answered] = share(results[1])
	return rows{sickA: a, sickB: bs}, nil
}

func share(r load.Result) float64 { return float64(r.Calls) / float64(max(r.Calls+r.Failed, 1)) }
