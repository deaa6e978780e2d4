package main

import (
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
	setup := peers.Setup{Policy: w.policy}
	_, plain := p.(peers.Plain)
	if plain && w.outage {
		var err error
		if setup.Answer, err = b.degradedAnswer(w); err != nil {
			return nil, err
		}
	}
	return b.rigFor(w, p, &setup, plain)
}

// rigFor starts a peer as a setup says. One that is alone answers as in an
// outage from the beginning.
func (b *bench) rigFor(w *workload, p peers.Peer, setup *peers.Setup, alone bool) (*rig, error) {
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
	setup.Routes = []peers.Route{{Listen: listen, Upstream: up.addr}}
	stop, process, err := b.start(p, setup)
	if err != nil {
		r.close()
		return nil, err
	}
	r.process = process
	r.done = append(r.done, stop)
	r.target = load.Target{Addr: listen, Request: w.request(listen), Status: 200, Length: w.answer, Fresh: w.fresh}
	if alone {
		r.outage(w)
	}
	if err := until(load.NewCaller(&r.target).Once); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// outage expects the answers that a workload has while the upstream fails.
func (r *rig) outage(w *workload) {
	if w.status > 0 {
		r.target.Status = w.status
	}
	if w.anySize {
		r.target.Length = -1
	}
}

// until checks, in steps of a millisecond, until all is well: some peers listen
// before they know their routes.
func until(check func() error) error {
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		err := check()
		if err == nil || time.Since(began) > startTimeout {
			return err
		}
	}
}

// start runs a peer in a folder of its own. What the setup leaves open it
// fills in.
func (b *bench) start(p peers.Peer, setup *peers.Setup) (stop func(), running *process, err error) {
	if setup.Dir, err = os.MkdirTemp(b.dir, "peer-"); err != nil {
		return nil, nil, err
	}
	for _, addr := range []*string{&setup.Admin, &setup.Metrics} {
		if *addr, err = peers.FreeAddr(); err != nil {
			return nil, nil, err
		}
	}
	args, err := p.Command(*setup)
	if err != nil {
		return nil, nil, err
	}
	var addrs []string
	for _, r := range setup.Routes {
		addrs = append(addrs, r.Listen)
	}
	running, err = startProcess(b.ctx, args, addrs)
	if err != nil {
		return nil, nil, err
	}
	return func() {
		running.stop()
		_ = os.RemoveAll(setup.Dir)
	}, running, nil
}

// fail lets the upstream fail, and calls until the peer answers by itself. An
// answer that was kept as fresh for a second is stale by then.
func (r *rig) fail(w *workload) error {
	if w.policy == peers.Stale {
		time.Sleep(1500 * time.Millisecond)
	}
	r.upstream.become(failing)
	r.outage(w)
	c := load.NewCaller(&r.target)
	defer c.Close()
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
