package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"sidecar/bench/peers"
)

// bench is one run of the whole.
type bench struct {
	ctx        context.Context // ends with the first signal
	dir        string          // for binaries and configurations
	rounds     int
	warm       time.Duration // of each closed loop before it is measured
	length     time.Duration // of each loop
	peers      []peers.Peer
	workloads  []*workload
	versions   []versionOf
	loadBefore float64
	results    results
	errors     map[string]map[string]error // the last, by workload and peer
}

type versionOf struct{ peer, text string }

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	rounds := flag.Int("rounds", 5, "rounds, of which medians are taken")
	length := flag.Duration("length", 3*time.Second, "length of each loop")
	quick := flag.Bool("quick", false, "one round with loops of a second, to see that all works")
	only := flag.String("only", "", "`workloads` to run, separated by commas (default: all)")
	chosen := flag.String("peers", "", "`peers` to run, separated by commas (default: all that are here)")
	out := flag.String("out", "", "`folder` for RESULTS.md and results.json (default: this one, for a run of all; none for a part)")
	flag.Parse()
	if *quick {
		*rounds, *length = 1, time.Second
	}
	if *out == "" && !*quick && *only == "" && *chosen == "" {
		*out = "."
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp("", "sidecar-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	b := &bench{
		ctx: ctx, dir: dir, rounds: *rounds, length: *length, warm: max(*length/3, 300*time.Millisecond),
		loadBefore: load1(), results: results{}, errors: map[string]map[string]error{},
	}
	if err := errors.Join(b.chooseWorkloads(*only), b.buildAll(), b.choosePeers(*chosen)); err != nil {
		return err
	}
	if err := b.measureAll(); err != nil {
		return err
	}
	b.results.compare()
	fmt.Println(b.report())
	if *out == "" {
		return nil
	}
	return b.write(*out)
}

// buildAll builds the sidecar as it is released, and the peers of ours.
func (b *bench) buildAll() error {
	for name, from := range map[string][2]string{
		"sidecar":     {"..", "./cmd/sidecar"},
		"bare":        {".", "./peers/bare"},
		"plain":       {".", "./peers/plain"},
		"handwritten": {".", "./peers/handwritten"},
	} {
		if err := build(b.ctx, from[0], from[1], filepath.Join(b.dir, name)); err != nil {
			return err
		}
	}
	return nil
}

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
			wanted["get-1k-stored"] = true
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
	for _, p := range peers.All(b.dir) {
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

// measureAll runs the rounds. In each, every workload is run with every peer;
// who is first changes from round to round.
func (b *bench) measureAll() error {
	for round := range b.rounds {
		for _, w := range b.workloads {
			for i := range b.peers {
				if b.ctx.Err() != nil {
					return errors.New("interrupted")
				}
				b.measureOne(round, w, b.peers[(i+round)%len(b.peers)])
			}
		}
	}
	return nil
}

func (b *bench) measureOne(round int, w *workload, p peers.Peer) {
	run := w.run
	if run == nil {
		run = steady
	}
	measured, err := run(b, w, p)
	switch {
	case errors.Is(err, peers.ErrCannot):
	case err != nil:
		fmt.Fprintf(os.Stderr, "round %d, %s, %s: %v\n", round+1, w.name, p.Name(), err)
		if b.errors[w.name] == nil {
			b.errors[w.name] = map[string]error{}
		}
		b.errors[w.name][p.Name()] = err
	default:
		b.results.put(round, p.Name(), measured)
		fmt.Fprintf(os.Stderr, "round %d, %s, %s: %s\n", round+1, w.name, p.Name(), brief(measured[w.name]))
	}
}

// brief is a line of the figures that matter while one waits.
func brief(f figures) string {
	var parts []string
	for _, name := range []string{cpu, rps, p50, p99, kibPerCall, upstreamConns} {
		if v, known := f[name]; known {
			parts = append(parts, fmt.Sprintf("%s %.4g", name, v))
		}
	}
	return strings.Join(parts, ", ")
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
