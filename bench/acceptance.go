package main

import (
	"fmt"
	"strconv"
	"strings"
)

// criterion is a promise of the sidecar, held against the figures of a run.
type criterion struct {
	about    string
	workload string
	figure   string
	over     string  // the peer whose figure in the same round this is divided by; "" = none
	sign     string  // "≤", "<" or "≥"; "" = reported as it is
	limit    float64 // in the figure's unit
	unit     string
}

// criteria are what the sidecar promises, in the order of RESULTS.md.
var criteria = []criterion{
	{about: "all protections on: CPU, × bare", workload: proxied, figure: vsBare, sign: "≤", limit: 1.05},
	{about: "all protections on: p99 at 2,000 calls/s, × bare", workload: proxied, figure: p99VsBare, sign: "≤", limit: 1.1},
	{about: "all protections on: CPU, × handwritten", workload: proxied, figure: cpu, over: "handwritten", sign: "<", limit: 1},
	{about: "all protections on: CPU, × Caddy", workload: proxied, figure: cpu, over: "caddy", sign: "<", limit: 1},
	{about: "all protections on: CPU, × Traefik", workload: proxied, figure: cpu, over: "traefik", sign: "<", limit: 1},
	{about: "all protections on: CPU, × nginx", workload: proxied, figure: cpu, over: "nginx"},
	{about: "all protections on: CPU, × HAProxy", workload: proxied, figure: cpu, over: "haproxy"},
	{about: "all protections on: p99, × handwritten", workload: proxied, figure: p99, over: "handwritten", sign: "<", limit: 1},
	{about: "all protections on: p99, × Caddy", workload: proxied, figure: p99, over: "caddy", sign: "<", limit: 1},
	{about: "all protections on: p99, × Traefik", workload: proxied, figure: p99, over: "traefik", sign: "<", limit: 1},
	{about: "all protections on: p99, × nginx", workload: proxied, figure: p99, over: "nginx"},
	{about: "all protections on: p99, × HAProxy", workload: proxied, figure: p99, over: "haproxy"},
	{about: "circuit open: CPU of a refusal, × plain", workload: openRefused, figure: vsPlain, sign: "≤", limit: 1.25},
	{about: "circuit open: CPU of a static answer, × plain", workload: openStatic, figure: vsPlain, sign: "≤", limit: 1.25},
	{about: "circuit open: CPU of a stale answer, × proxied call", workload: openStale, figure: vsProxied, sign: "≤", limit: 0.5},
	{about: "circuit open: upstream connections, refused", workload: openRefused, figure: upstreamConns, sign: "≤"},
	{about: "circuit open: upstream connections, static", workload: openStatic, figure: upstreamConns, sign: "≤"},
	{about: "circuit open: upstream connections, stale", workload: openStale, figure: upstreamConns, sign: "≤"},
	{about: "circuit open: the decision itself", workload: deciding, figure: nsPerCall, sign: "<", limit: 100, unit: "ns"},
	{about: "circuit open: allocations of the decision", workload: deciding, figure: allocs, sign: "≤"},
	{about: "memory of a waiting call, 1,000 waiting", workload: waiting, figure: kibPerCall, sign: "<", limit: 20, unit: "KiB"},
	{about: "sick dependency: A's p99 in the outage, × before", workload: sickA, figure: p99VsBefore, sign: "≤", limit: 1.2},
	{about: "sick dependency: share of A's calls answered", workload: sickA, figure: answered, sign: "≥", limit: 0.999},
	{about: "sick dependency: share of B's calls answered, by copies", workload: sickB, figure: answered, sign: "≥", limit: 0.999},
	{about: "sick dependency: B's p99 after the trip", workload: sickB, figure: p99After, sign: "<", limit: 5, unit: "ms"},
	{about: "sick dependency: calls that reach it", workload: sickB, figure: atUpstream, sign: "≤", limit: 20},
	{about: "sick dependency: probes that reach it later", workload: sickB, figure: probes},
	{about: "idle with 10 dependencies: resident memory", workload: resting, figure: restMiB, sign: "<", limit: 25, unit: "MiB"},
	{about: "start to ready with 10 dependencies", workload: starting, figure: startMs, sign: "<", limit: 100, unit: "ms"},
}

// judged is the peer that the criteria are about.
const judged = "sidecar"

// value returns the median over the rounds of what a criterion looks at.
func (c *criterion) value(r results) (v float64, known bool) {
	rounds := r[c.workload][judged]
	if c.over != "" {
		ratios := make([]figures, len(rounds))
		for i, f := range rounds {
			ratios[i] = figures{}
			ratios[i].quotient(c.figure, f, r.at(c.workload, c.over, i))
		}
		rounds = ratios
	}
	v, known = median(rounds)[c.figure]
	return v, known
}

func (f figures) quotient(name string, a, b figures) {
	if v, known := a[name]; known && b[name] > 0 {
		f[name] = v / b[name]
	}
}

// met says whether a figure is within the limit.
func (c *criterion) met(v float64) bool {
	switch c.sign {
	case "<":
		return v < c.limit
	case "≥":
		return v >= c.limit
	default:
		return v <= c.limit
	}
}

// acceptance writes each promise, its limit and what this run has shown.
func acceptance(out *strings.Builder, r results) {
	var lines strings.Builder
	count := map[string]int{}
	for i := range criteria {
		c := &criteria[i]
		figure, limit, verdict := "–", "as it is", "not measured"
		if c.sign != "" {
			limit = c.sign + " " + c.write(c.limit)
		}
		if v, known := c.value(r); known {
			figure = c.write(significant(v, 4))
			switch {
			case c.sign == "":
				verdict = "reported"
			case c.met(v):
				verdict = "met"
			default:
				verdict = "**not met**"
			}
		}
		count[strings.Trim(verdict, "*")]++
		fmt.Fprintf(&lines, "| %s | %s | %s | %s |\n", c.about, limit, figure, verdict)
	}
	fmt.Fprintf(out, `
## Acceptance

What the sidecar promises, and what this run has shown: %d met, %d not met, %d
without a limit, %d not measured. Medians of the rounds; ratios are taken within
each round.

| sidecar | limit | figure | |
|---|---:|---:|---|
%s`, count["met"], count["not met"], count["reported"], count["not measured"], &lines)
}

func (c *criterion) write(v float64) string {
	return strings.TrimSpace(strconv.FormatFloat(v, 'f', -1, 64) + " " + c.unit)
}
