// Micro compares what the breaker and the bulkhead cost a call with what other
// libraries for Go take for the same work:
//
//	make bench-micro                               all, about a minute; writes bench/MICRO.md
//	cd bench && go run ./micro -rounds 5           shorter, prints only
//	cd bench && go test ./micro -bench . -cpu 1,2  as ordinary benchmarks, for profiles
//
// Every row is one piece of work that every library in it does, on one instance
// that all goroutines share: by one goroutine on one core, then by two on two
// cores, which do nothing else and so meet all the time. A round measures each
// row once, its libraries one after the other. Figures are medians of the
// rounds; ratios are taken within a round before their median is, and so hold
// on a busy machine when the figures themselves do not.
//
// # The clock
//
// Reading the clock costs more than most of what is measured. The breaker of
// the sidecar takes the time as an argument, as one reading serves a whole stage
// of a call; other libraries read it themselves, or do so in some of their
// settings only. So ours stands in a row once for each number of readings that
// the others make, reads the clock as often itself, and every ratio is between
// two that read it equally often.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

func main() {
	testing.Init()
	rounds := flag.Int("rounds", 31, "rounds, of which medians are taken")
	length := flag.Duration("length", 10*time.Millisecond, "length of each measurement")
	only := flag.String("only", "", "rows whose name has this in it (default: all)")
	out := flag.String("out", "", "`file` whose tables are written anew (default: none)")
	flag.Parse()
	err := run(*rounds, *length, *only, *out)
	end()
	if err != nil {
		fmt.Fprintln(os.Stderr, "micro:", err)
		os.Exit(1)
	}
}

func run(rounds int, length time.Duration, only, out string) error {
	if runtime.NumCPU() < 2 {
		return fmt.Errorf("one core has no contention to measure: use a machine with two or more")
	}
	if err := flag.Set("test.benchtime", length.String()); err != nil {
		return err
	}
	var chosen []row
	for _, r := range rows() {
		if strings.Contains(r.name, only) {
			chosen = append(chosen, r)
		}
	}
	seen := results{}
	for range rounds {
		for _, r := range chosen {
			for _, cores := range coreCounts {
				seen.measure(r, cores)
			}
		}
	}
	text, behind := seen.report(chosen, rounds, length)
	fmt.Print(text)
	for _, b := range behind {
		fmt.Fprintln(os.Stderr, "micro: behind:", b)
	}
	if out == "" {
		return nil
	}
	return rewrite(out, text)
}
