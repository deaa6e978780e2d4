package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"sidecar/bench/peers"
)

// chooseWorkloads takes the workloads that are named, and those that they are
// compared with; all if none is named.
func (b *bench) chooseWorkloads(names string) error {
	wanted := map[string]bool{}
	for _, name := range list(names) {
		w, known := find(name)
		if !known {
			return fmt.Errorf("no workload is called %q: use some of %s", name, strings.Join(workloadNames(), ", "))
		}
		wanted[name], wanted[w.against], wanted[w.with] = true, true, true
		if w.outage && w.policy == peers.Stale {
			wanted[stored] = true
		}
	}
	for i := range workloads {
		if w := &workloads[i]; w.with == "" && (names == "" || wanted[w.name]) {
			b.workloads = append(b.workloads, w)
		}
	}
	return nil
}

// choosePeers takes the peers that are named, bare always; all if none is
// named. A peer whose program is not here is reported as absent.
func (b *bench) choosePeers(names string) error {
	wanted := list(names)
	var known []string
	all := peers.All(b.dir)
	if b.other != "" {
		all = append(all, peers.Other(b.other))
	}
	for _, p := range all {
		known = append(known, p.Name())
		if names != "" && p.Name() != "bare" && !slices.Contains(wanted, p.Name()) {
			continue
		}
		version, err := p.Version()
		if err != nil {
			version = "absent: " + err.Error()
		} else {
			b.peers = append(b.peers, p)
		}
		b.versions = append(b.versions, versionOf{p.Name(), version})
		fmt.Fprintf(os.Stderr, "%-18s %s\n", p.Name(), version)
	}
	for _, name := range wanted {
		if !slices.Contains(known, name) {
			return fmt.Errorf("no peer is called %q: use some of %s", name, strings.Join(known, ", "))
		}
	}
	return nil
}

func (b *bench) peerNames() (names []string) {
	for _, v := range b.versions {
		names = append(names, v.peer)
	}
	return names
}

func workloadNames() (names []string) {
	for _, w := range workloads {
		names = append(names, w.name)
	}
	return names
}

// list splits at commas.
func list(s string) (names []string) {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}
