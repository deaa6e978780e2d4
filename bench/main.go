package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"sidecar/bench/machine"
	"sidecar/bench/peers"
)

// bench is one run of the whole.
type bench struct {
	ctx        context.Context // ends with the first signal
	dir        string          // for binaries and configurations
	rounds     int
	length     time.Duration // of each loop
	other      string        // another binary of the sidecar; "" = none
	peers      []peers.Peer
	workloads  []*workload
	versions   []versionOf
	loadBefore float64
	began      time.Time
	answers    map[string][]byte // the sidecar's during an outage, by workload
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
	rounds := flag.Int("rounds", 5, "rounds, of which medians are taken; some rows are run in the first three alone")
	length := flag.Duration("length", 2*time.Second, "length of each loop")
	quick := flag.Bool("quick", false, "one round with loops of a second, to see that all works")
	only := flag.String("only", "", "`workloads` to run, separated by commas (default: all)")
	chosen := flag.String("peers", "", "`peers` to run, separated by commas (default: all that are here)")
	other := flag.String("other", "", "another `binary` of the sidecar, to run as the peer sidecar-other")
	profile := flag.Bool("pgo", false, "measure nothing, but write the profile by which the sidecar is compiled")
	out := flag.String("out", "", "`folder` for RESULTS.md and results.json (default: this one, for a run of all; none for a part)")
	flag.Parse()
	if *quick {
		*rounds, *length = 1, time.Second
	}
	if *out == "" && !*quick && *only == "" && *chosen == "" && *other == "" {
		*out = "."
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp("", "sidecar-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	b := newBench(ctx, dir, *rounds, *length)
	b.other = *other
	if *profile {
		return b.writeProfile()
	}
	if err := b.runAll(*only, *chosen); err != nil {
		return err
	}
	fmt.Println(b.report())
	if *out == "" {
		return nil
	}
	return b.write(*out)
}

func newBench(ctx context.Context, dir string, rounds int, length time.Duration) *bench {
	return &bench{
		ctx: ctx, dir: dir, rounds: rounds, length: length, loadBefore: machine.Load(), began: time.Now(),
		answers: map[string][]byte{}, results: results{}, errors: map[string]map[string]error{},
	}
}

// runAll runs the workloads with the peers that are named.
func (b *bench) runAll(workloads, chosen string) error {
	if err := errors.Join(b.chooseWorkloads(workloads), b.buildAll(), b.choosePeers(chosen)); err != nil {
		return err
	}
	if err := b.measureAll(); err != nil {
		return err
	}
	b.results.compare()
	return nil
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

// measureAll runs the rounds. In each, every workload is run with every peer;
// who is first changes from round to round.
func (b *bench) measureAll() error {
	for round := range b.rounds {
		for _, w := range b.workloads {
			if w.rounds > 0 && round >= w.rounds {
				continue
			}
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
	for _, name := range []string{cpu, rps, p50, p99Before, p99, kibPerCall, upstreamConns, restMiB, nsPerCall} {
		if v, known := f[name]; known {
			parts = append(parts, fmt.Sprintf("%s %.4g", name, v))
		}
	}
	return strings.Join(parts, ", ")
}
