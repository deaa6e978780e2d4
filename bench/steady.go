package main

import (
	"errors"
	"fmt"
	"time"

	"sidecar/bench/load"
	"sidecar/bench/peers"
)

// steady measures a peer under a load that does not change: a closed loop for
// CPU and throughput, then an open one for latency.
func steady(b *bench, w *workload, p peers.Peer) (rows, error) {
	r, err := b.rig(w, p)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if w.outage {
		if err := r.fail(w); err != nil {
			return nil, err
		}
	}
	warm, length := b.loops(w)
	if err := whole(load.Closed(b.ctx, &r.target, w.conns, warm)); err != nil {
		return nil, fmt.Errorf("warm-up: %w", err)
	}
	conns, calls := r.upstream.conns.Load(), r.upstream.calls.Load()
	before, err := measure(r.process.pid())
	if err != nil {
		return nil, err
	}
	closed := load.Closed(b.ctx, &r.target, w.conns, length)
	after, err := measure(r.process.pid())
	if err != nil {
		return nil, err
	}
	parts := load.Open(b.ctx, &r.target, w.conns, w.rate, length, windows(w.rate, length))
	open := load.Sum(parts...)
	last, err := measure(r.process.pid())
	if err := errors.Join(err, whole(closed), whole(open)); err != nil {
		return nil, err
	}
	f := figures{
		cpu:     (after.cpu - before.cpu).Seconds() * 1e5 / float64(closed.Calls),
		rps:     closed.Rate(),
		peakRSS: float64(last.peak) / mib,
	}
	f.typical(parts)
	f[p999] = milliseconds(open.Percentile(0.999))
	if w.outage {
		f[upstreamConns] = float64(r.upstream.conns.Load() - conns)
		f[upstreamCalls] = float64(r.upstream.calls.Load() - calls)
	}
	return rows{w.name: f}, nil
}

// window is the time over which the p50 and the p99 of an open loop are taken,
// before their medians are. Load, upstream and peer share two cores, and about
// once a second one of them keeps the others waiting for some ten milliseconds:
// over a longer time, whether that happened once more or less would decide
// whether a p99 is below one millisecond or above five.
const window = 250 * time.Millisecond

// windows returns the number of windows in a loop, each with enough calls for a
// p99.
func windows(rate int, length time.Duration) int {
	const enough = 200
	return max(1, min(int(length/window), int(float64(rate)*length.Seconds())/enough))
}

// loops returns the length of a workload's warm-up and of each of its loops.
func (b *bench) loops(w *workload) (warm, length time.Duration) {
	length = b.length
	if w.rounds > 0 {
		length = max(length/2, 300*time.Millisecond)
	}
	return max(length/3, 300*time.Millisecond), length
}

// whole returns an error if not all calls were answered as they should: a
// peer that refuses calls cheaply must not look fast.
func whole(r load.Result) error {
	switch {
	case r.Failed > r.Calls/1000:
		return fmt.Errorf("%d of %d calls failed: %w", r.Failed, r.Calls+r.Failed, r.Err)
	case r.Calls == 0:
		return errors.New("no call was answered in time: use longer loops")
	}
	return nil
}
