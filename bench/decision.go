package main

import (
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"

	"sidecar/bench/peers"
)

// benchmarkLine is what `go test -bench -benchmem` prints of one benchmark.
var benchmarkLine = regexp.MustCompile(`(?m)^Benchmark\S+\s+\d+\s+([0-9.]+) ns/op\s+\d+ B/op\s+(\d+) allocs/op$`)

// decision takes the time of the sidecar's own benchmark of a refusal.
func decision(b *bench, w *workload, p peers.Peer) (rows, error) {
	if p.Name() != "sidecar" {
		return nil, peers.ErrCannot
	}
	test := exec.CommandContext(b.ctx, "go", "test", "./resilience/breaker",
		"-run", "^$", "-bench", "^BenchmarkRefused$", "-benchmem", "-benchtime", "300ms")
	test.Dir = ".."
	out, err := test.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	f, err := parseBenchmark(out)
	return rows{w.name: f}, err
}

func parseBenchmark(out []byte) (figures, error) {
	found := benchmarkLine.FindSubmatch(out)
	if found == nil {
		return nil, errors.New("go test printed no benchmark")
	}
	ns, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		return nil, err
	}
	n, err := strconv.ParseFloat(string(found[2]), 64)
	return figures{nsPerCall: ns, allocs: n}, err
}
