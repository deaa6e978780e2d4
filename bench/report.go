package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"sidecar/bench/machine"
)

// columns are the figures of a table, in order. A column without any figure is
// left out.
var columns = []struct{ figure, title string }{
	{cpu, "CPU s / 100,000"},
	{vsBare, "× bare"},
	{vsPlain, "× plain"},
	{vsProxied, "× own proxied call"},
	{vsStored, "× own stored call"},
	{rps, "calls/s"},
	{rpsVsBare, "× bare"},
	{p50, "p50 ms"},
	{p99Before, "p99 ms before"},
	{p99, "p99 ms"},
	{p99VsBare, "p99 × bare"},
	{p99VsBefore, "p99 × before"},
	{p99After, "p99 ms after the trip"},
	{p999, "p99.9 ms"},
	{answered, "answered 200"},
	{upstreamConns, "upstream conns"},
	{upstreamCalls, "upstream calls"},
	{atUpstream, "at the sick upstream"},
	{probes, "there later"},
	{kibPerCall, "KiB / parked call"},
	{restMiB, "idle MiB"},
	{restedMiB, "MiB after calls"},
	{startMs, "ready after ms"},
	{nsPerCall, "ns"},
	{allocs, "allocations"},
	{peakRSS, "peak MiB"},
}

// report writes all tables as Markdown.
func (b *bench) report() string {
	var out strings.Builder
	fmt.Fprintf(&out, `# Results

Written by `+"`make bench-compare`"+`; what each figure means, and how it was taken, is in [doc.go](doc.go).
Rounds: %d, of some rows fewer; loops: %s; load average before: %.1f; the run took %s.

%s
| peer | version |
|---|---|
`, b.rounds, b.length, b.loadBefore, time.Since(b.began).Round(time.Minute), machine.Describe())
	for _, v := range b.versions {
		fmt.Fprintf(&out, "| %s | %s |\n", v.peer, strings.ReplaceAll(v.text, "|", "\\|"))
	}
	acceptance(&out, b.results)
	medians := b.results.medians()
	for _, w := range workloads {
		if byPeer := medians[w.name]; len(byPeer) > 0 {
			fmt.Fprintf(&out, "\n## %s\n\n%s.\n", w.name, w.about)
			if w.rate > 0 {
				fmt.Fprintf(&out, "Latencies at %d calls/s.\n", w.rate)
			}
			out.WriteString("\n")
			table(&out, byPeer, b.peerNames())
			failures(&out, b.errors[w.name])
		}
	}
	return out.String()
}

// table writes a row for each peer that has figures.
func table(out *strings.Builder, byPeer map[string]figures, order []string) {
	shown := columns[:0:0]
	for _, c := range columns {
		for _, f := range byPeer {
			if _, known := f[c.figure]; known {
				shown = append(shown, c)
				break
			}
		}
	}
	out.WriteString("| peer |")
	for _, c := range shown {
		fmt.Fprintf(out, " %s |", c.title)
	}
	out.WriteString("\n|---|" + strings.Repeat("---:|", len(shown)) + "\n")
	for _, peer := range order {
		f, known := byPeer[peer]
		if !known {
			continue
		}
		fmt.Fprintf(out, "| %s |", peer)
		for _, c := range shown {
			text := "–"
			if v, known := f[c.figure]; known {
				text = strconv.FormatFloat(significant(v, 3), 'f', -1, 64)
			}
			fmt.Fprintf(out, " %s |", text)
		}
		out.WriteString("\n")
	}
}

// failures tells what could not be measured.
func failures(out *strings.Builder, byPeer map[string]error) {
	names := make([]string, 0, len(byPeer))
	for name := range byPeer {
		names = append(names, name)
	}
	slices.SortFunc(names, cmp.Compare)
	for _, name := range names {
		line, _, _ := strings.Cut(byPeer[name].Error(), "\n")
		fmt.Fprintf(out, "\nNot whole: %s: %s.\n", name, line)
	}
}

// write puts RESULTS.md and results.json into a folder.
func (b *bench) write(folder string) error {
	encoded, err := json.MarshalIndent(b.results.medians(), "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "results.json"), append(encoded, '\n'), 0o644); err != nil { //nolint:gosec // figures are for everyone
		return err
	}
	return os.WriteFile(filepath.Join(folder, "RESULTS.md"), []byte(b.report()), 0o644) //nolint:gosec // as above
}
