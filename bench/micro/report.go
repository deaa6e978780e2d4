package main

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sidecar/bench/machine"
)

// coreCounts are the numbers of cores, and of goroutines, of a measurement.
var coreCounts = []int{1, 2}

// results holds a row's figures: nanoseconds of each entry in each round.
type results map[cell]*figures

// cell is a row on a number of cores.
type cell struct {
	row   string
	cores int
}

type figures struct {
	ns     [][]float64 // by entry, then by round
	allocs []int64     // by entry, the most seen
}

// measure runs every entry of a row once.
func (r results) measure(one row, cores int) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
	at := cell{one.name, cores}
	f := r[at]
	if f == nil {
		f = &figures{ns: make([][]float64, len(one.entries)), allocs: make([]int64, len(one.entries))}
		r[at] = f
	}
	for i, e := range one.entries {
		b := testing.Benchmark(e.bench)
		f.ns[i] = append(f.ns[i], float64(b.T.Nanoseconds())/float64(b.N))
		f.allocs[i] = max(f.allocs[i], b.AllocsPerOp())
	}
}

// report writes the tables as Markdown, and lists those comparisons in which
// ours is not ahead.
func (r results) report(rows []row, rounds int, length time.Duration) (text string, behind []string) {
	var out strings.Builder
	fmt.Fprintf(&out, "- %s, %d cores, %s/%s, %s\n- %s; medians of %d rounds of %v; load average at the end %.2f\n",
		machine.Processor(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(),
		time.Now().UTC().Format("2 January 2006"), rounds, length, machine.Load())
	for _, one := range rows {
		fmt.Fprintf(&out, "\n## %s\n\n%s\n\n| | clock read |", strings.ToUpper(one.name[:1])+one.name[1:], one.about)
		for _, cores := range coreCounts {
			fmt.Fprintf(&out, " ns, %d core%s | sidecar / it |", cores, plural(cores))
		}
		fmt.Fprintf(&out, " allocs |\n|---|---:|%s---:|\n", strings.Repeat("---:|---:|", len(coreCounts)))
		for i, e := range one.entries {
			fmt.Fprintf(&out, "| %s | %s |", e.who, times(e.clocks))
			for _, cores := range coreCounts {
				f := r[cell{one.name, cores}]
				ratio := "–"
				if base := one.base(e); !e.ours && base >= 0 {
					v := medianRatio(f.ns[base], f.ns[i])
					ratio = fmt.Sprintf("%.2f", v)
					if v >= 1 && !e.aside {
						behind = append(behind, fmt.Sprintf("%s, %d cores: %.2f of %s", one.name, cores, v, e.who))
					}
				}
				fmt.Fprintf(&out, " %s | %s |", significant(median(f.ns[i])), ratio)
			}
			fmt.Fprintf(&out, " %d |\n", r[cell{one.name, 1}].allocs[i])
		}
	}
	return out.String(), behind
}

// base returns which entry of ours reads the clock as often as e does; -1 if
// none does.
func (one row) base(e entry) int {
	return slices.IndexFunc(one.entries, func(o entry) bool { return o.ours && o.clocks == e.clocks })
}

// medianRatio returns the median of a/b of each round.
func medianRatio(a, b []float64) float64 {
	ratios := make([]float64, len(a))
	for i := range a {
		ratios[i] = a[i] / b[i]
	}
	return median(ratios)
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// significant writes nanoseconds with three digits, or as many as are whole.
func significant(ns float64) string {
	switch {
	case ns < 10:
		return strconv.FormatFloat(ns, 'f', 2, 64)
	case ns < 100:
		return strconv.FormatFloat(ns, 'f', 1, 64)
	}
	return strconv.FormatFloat(ns, 'f', 0, 64)
}

func times(n int) string {
	return []string{"no", "once", "twice"}[n]
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}

// The tables stand between these lines of the file.
const (
	beginMark = "<!-- begin: written by make bench-micro -->\n"
	endMark   = "<!-- end -->\n"
)

// rewrite puts the tables in the place of those that stand in the file.
func rewrite(file, tables string) error {
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(old), beginMark)
	_, after, ended := strings.Cut(rest, endMark)
	if !found || !ended {
		return fmt.Errorf("%s has no place for the tables: put in the lines %q and %q", file, beginMark, endMark)
	}
	return os.WriteFile(file, []byte(before+beginMark+tables+endMark+after), 0o644) //nolint:gosec // a page of the repository
}
