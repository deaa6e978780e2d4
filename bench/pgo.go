package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"sidecar/bench/load"
	"sidecar/bench/peers"
)

// defaultPGO is the profile that `go build` takes by itself.
const defaultPGO = "../cmd/sidecar/default.pgo"

// profileLength is how long each profile is taken.
const profileLength = 20 * time.Second

// profiled are the workloads of the profile, each as long as the others.
var profiled = []string{proxied, posted, stored, openRefused, openStatic, openStale}

// writeProfile builds the sidecar without a profile, takes its CPU profile
// under each of the profiled workloads, and merges them to default.pgo.
func (b *bench) writeProfile() error {
	if err := build(b.ctx, "..", "./cmd/sidecar", filepath.Join(b.dir, "sidecar"), "-pgo=off"); err != nil {
		return err
	}
	merge := []string{"tool", "pprof", "-proto"}
	for _, name := range profiled {
		w, _ := find(name)
		file := filepath.Join(b.dir, name+".pprof")
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, profileLength)
		if err := b.profile(w, file); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		merge = append(merge, file)
	}
	merged, err := exec.CommandContext(b.ctx, "go", merge...).Output()
	if err != nil {
		return fmt.Errorf("go tool pprof: %w", err)
	}
	return os.WriteFile(defaultPGO, merged, 0o644) //nolint:gosec // part of the source
}

// profile takes a CPU profile of the sidecar under a closed loop.
func (b *bench) profile(w *workload, file string) error {
	setup := peers.Setup{Policy: w.policy, Profile: true}
	r, err := b.rigFor(w, peers.Built(b.dir), &setup, false)
	if err != nil {
		return err
	}
	defer r.close()
	if w.outage {
		if err := r.fail(w); err != nil {
			return err
		}
	}
	taken := make(chan error, 1)
	go func() {
		time.Sleep(profileLength / 4) // what comes first is no steady load
		taken <- download(fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", setup.Admin, int(profileLength.Seconds())), file)
	}()
	err = whole(load.Closed(b.ctx, &r.target, w.conns, profileLength*3/2))
	if failed := <-taken; failed != nil {
		return failed
	}
	return err
}

// download writes what a URL answers into a file.
func download(url, file string) error {
	res, err := http.Get(url) //nolint:gosec // on the loopback interface
	if err != nil {
		return err
	}
	defer res.Body.Close() //nolint:errcheck // it was only read
	content, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, res.Status)
	}
	return os.WriteFile(file, content, 0o600)
}
