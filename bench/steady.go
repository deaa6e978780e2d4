package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"sidecar/bench/load"
	"sidecar/bench/peers"
)

// outageTimeout is how long a peer may take to answer by itself once its
// upstream fails.
const outageTimeout = 10 * time.Second

// settled calls in a row, all answered, show that a peer has got used to the
// outage.
const settled = 50

// rig is a peer between an upstream and the load.
type rig struct {
	upstream *upstream
	process  *process
	target   load.Target
	done     []func()
}

func (r *rig) close() {
	for i := len(r.done) - 1; i >= 0; i-- {
		r.done[i]()
	}
}

// rig starts a peer with one upstream.
func (b *bench) rig(w *workload, p peers.Peer) (*rig, error) {
	up, err := startUpstream(w.answer, 0)
	if err != nil {
		return nil, err
	}
	r := &rig{upstream: up, done: []func(){up.close}}
	listen, err := peers.FreeAddr()
	if err != nil {
		r.close()
		return nil, err
	}
	stop, process, err := b.start(p, w.policy, peers.Route{Listen: listen, Upstream: up.addr})
	if err != nil {
		r.close()
		return nil, err
	}
	r.process = process
	r.done = append(r.done, stop)
	r.target = load.Target{Addr: listen, Request: w.request(listen), Status: 200, Length: w.answer, Fresh: w.fresh}
	if w.anySize {
		r.target.Length = -1
	}
	if err := r.ready(); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// ready waits for a good answer: some peers listen before they know their
// routes.
func (r *rig) ready() error {
	c := load.NewCaller(&r.target)
	defer c.Close()
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		err := c.Call()
		if err == nil || time.Since(began) > startTimeout {
			return err
		}
	}
}

// start runs a peer in a folder of its own.
func (b *bench) start(p peers.Peer, policy peers.Policy, routes ...peers.Route) (stop func(), running *process, err error) {
	dir, err := os.MkdirTemp(b.dir, "peer-")
	if err != nil {
		return nil, nil, err
	}
	args, err := p.Command(peers.Setup{Policy: policy, Routes: routes, Dir: dir})
	if err != nil {
		return nil, nil, err
	}
	var addrs []string
	for _, r := range routes {
		addrs = append(addrs, r.Listen)
	}
	running, err = startProcess(b.ctx, args, addrs)
	if err != nil {
		return nil, nil, err
	}
	return func() {
		running.stop()
		_ = os.RemoveAll(dir)
	}, running, nil
}

// steady measures a peer under a load that does not change: a closed loop for
// CPU and throughput, then an open one for latency.
func steady(b *bench, w *workload, p peers.Peer) (rows, error) {
	r, err := b.rig(w, p)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if w.outage {
		if err := r.fail(); err != nil {
			return nil, err
		}
	}
	if err := whole(load.Closed(b.ctx, &r.target, w.conns, b.warm)); err != nil {
		return nil, fmt.Errorf("warm-up: %w", err)
	}
	conns, calls := r.upstream.conns.Load(), r.upstream.calls.Load()
	before, err := measure(r.process.pid())
	if err != nil {
		return nil, err
	}
	closed := load.Closed(b.ctx, &r.target, w.conns, b.length)
	after, err := measure(r.process.pid())
	if err != nil {
		return nil, err
	}
	open := load.Open(b.ctx, &r.target, w.conns, w.rate, b.length)
	last, err := measure(r.process.pid())
	if err := errors.Join(err, whole(closed), whole(open)); err != nil {
		return nil, err
	}
	f := figures{
		cpu:     (after.cpu - before.cpu).Seconds() * 1e5 / float64(closed.Calls),
		rps:     closed.Rate(),
		peakRSS: float64(last.peak) / mib,
	}
	f.latencies(&open)
	if w.outage {
		f[upstreamConns] = float64(r.upstream.conns.Load() - conns)
		f[upstreamCalls] = float64(r.upstream.calls.Load() - calls)
	}
	return rows{w.name: f}, nil
}

// fail waits until the answer that made the peer ready is stale, where it was
// kept as fresh for a second, lets the upstream fail, and calls until the peer
// answers by itself.
func (r *rig) fail() error {
	c := load.NewCaller(&r.target)
	defer c.Close()
	time.Sleep(1500 * time.Millisecond)
	r.upstream.become(failing)
	began, good := time.Now(), 0
	var err error
	for good < settled {
		if time.Since(began) > outageTimeout {
			return fmt.Errorf("it never got used to the outage: %w", err)
		}
		if err = c.Call(); err != nil {
			good = 0
			time.Sleep(20 * time.Millisecond)
			continue
		}
		good++
		time.Sleep(10 * time.Millisecond)
	}
	return nil
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
