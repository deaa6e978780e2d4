package main

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"sidecar/bench/load"
	"sidecar/bench/peers"
)

const (
	idleRoutes = 10
	idleStarts = 5
	// idleTime is how long nobody calls before memory is looked at.
	idleTime = 2 * time.Second
	// idleBurst is how long each of the upstreams is called in between.
	idleBurst = 100 * time.Millisecond
)

// idle measures how soon a peer with ten upstreams is ready, what memory it
// holds while nobody calls, and what it still holds some seconds after calls.
func idle(b *bench, w *workload, p peers.Peer) (rows, error) {
	up, err := startUpstream(w.answer, 0)
	if err != nil {
		return nil, err
	}
	defer up.close()
	var took []time.Duration
	for range idleStarts - 1 {
		r, err := b.startIdle(w, p, up)
		if err != nil {
			return nil, err
		}
		r.stop()
		took = append(took, r.took)
	}
	r, err := b.startIdle(w, p, up)
	if err != nil {
		return nil, err
	}
	defer r.stop()
	took = append(took, r.took)
	slices.Sort(took)

	rest, err := r.rest()
	if err != nil {
		return nil, err
	}
	for _, t := range r.targets {
		if err := whole(load.Closed(b.ctx, &t, w.conns, idleBurst)); err != nil {
			return nil, err
		}
	}
	rested, err := r.rest()
	if err != nil {
		return nil, err
	}
	return rows{
		resting: {
			restMiB: float64(rest.rss) / mib, restedMiB: float64(rested.rss) / mib,
			peakRSS: float64(rested.peak) / mib,
		},
		starting: {startMs: milliseconds(took[len(took)/2])},
	}, nil
}

// idler is a peer with ten upstreams.
type idler struct {
	stop    func()
	process *process
	targets []load.Target
	took    time.Duration // from its start until it was ready
}

func (b *bench) startIdle(w *workload, p peers.Peer, up *upstream) (*idler, error) {
	r := &idler{}
	routes := make([]peers.Route, idleRoutes)
	for i := range routes {
		listen, err := peers.FreeAddr()
		if err != nil {
			return nil, err
		}
		routes[i] = peers.Route{Listen: listen, Upstream: up.addr}
		r.targets = append(r.targets, load.Target{Addr: listen, Request: w.request(listen), Status: 200, Length: w.answer})
	}
	setup := peers.Setup{Policy: w.policy, Routes: routes}
	began := time.Now()
	var err error
	if r.stop, r.process, err = b.start(p, &setup); err != nil {
		return nil, err
	}
	check := func() error { return load.NewCaller(&r.targets[idleRoutes-1]).Once() }
	if readier, tells := p.(peers.Readier); tells {
		check = func() error { return answers200("http://" + setup.Metrics + readier.ReadyPath()) }
	}
	if err := until(check); err != nil {
		r.stop()
		return nil, err
	}
	r.took = time.Since(began)
	return r, nil
}

// rest measures the peer after a time without calls.
func (r *idler) rest() (usage, error) {
	time.Sleep(idleTime)
	return measure(r.process.pid())
}

func answers200(url string) error {
	res, err := http.Get(url) //nolint:gosec // on the loopback interface
	if err != nil {
		return err
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, res.Status)
	}
	return nil
}
