package main

import (
	"fmt"
	"net"
	"time"

	"sidecar/bench/load"
	"sidecar/bench/peers"
)

// parkWarm is how long the peer is called before.
const parkWarm = 500 * time.Millisecond

// parkTime is how long the peer has to take all calls in.
const parkTime = 2 * time.Second

// parked measures the memory of calls that wait. The upstream hangs; one call
// is at it, or all of them where the peer has no queue. The memory of the
// callers' connections is part of it.
func parked(b *bench, w *workload, p peers.Peer) (rows, error) {
	r, err := b.rig(w, p)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if err := whole(load.Closed(b.ctx, &r.target, 1, parkWarm)); err != nil {
		return nil, fmt.Errorf("warm-up: %w", err)
	}
	r.upstream.become(hanging)
	before, err := measure(r.process.pid())
	if err != nil {
		return nil, err
	}
	for range w.conns + 1 {
		conn, err := net.Dial("tcp", r.target.Addr)
		if err != nil {
			return nil, err
		}
		r.done = append(r.done, func() { _ = conn.Close() })
		if _, err := conn.Write(r.target.Request); err != nil {
			return nil, err
		}
	}
	time.Sleep(parkTime)
	after, err := measure(r.process.pid())
	if err != nil {
		return nil, err
	}
	return rows{w.name: figures{
		kibPerCall: float64(after.rss-before.rss) / kib / float64(w.conns),
		atUpstream: float64(r.upstream.now.Load()),
		peakRSS:    float64(after.peak) / mib,
	}}, nil
}
