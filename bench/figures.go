package main

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"time"

	"sidecar/bench/load"
)

// Names of figures, as results.json has them.
const (
	cpu           = "cpu_s_per_100k"      // CPU seconds of the peer for 100,000 calls
	rps           = "rps"                 // calls a second in the closed loop
	p50           = "p50_ms"              // latency in the open loop
	p99           = "p99_ms"              //
	p999          = "p999_ms"             //
	peakRSS       = "peak_rss_mib"        // of the peer, until the end of the loops
	upstreamConns = "upstream_conns"      // connections made to the upstream, in all calls measured
	upstreamCalls = "upstream_calls"      // requests made of it
	atUpstream    = "at_upstream"         // calls that reached the sick upstream before the others could be told that it is sick
	probes        = "at_upstream_later"   // and after that
	answered      = "answered"            // share of the calls answered with 200 and the whole body
	p99Before     = "p99_before_ms"       // latency before the outage, of the same run
	p99VsBefore   = "p99_vs_before"       // latency during the outage compared with it
	p99After      = "p99_after_trip_ms"   // latency once the peer could know of the outage
	kibPerCall    = "kib_per_parked_call" // resident memory for a call that waits
	restMiB       = "idle_rss_mib"        // resident memory of a peer that nobody has called
	restedMiB     = "rested_rss_mib"      // resident memory some seconds after calls
	startMs       = "start_ms"            // from the start of the program until it is ready
	nsPerCall     = "ns"                  // time of one decision
	allocs        = "allocs"              // allocations of one decision
	vsBare        = "cpu_vs_bare"         // CPU compared with bare's, proxying
	rpsVsBare     = "rps_vs_bare"         //
	p99VsBare     = "p99_vs_bare"         // latency compared with bare's, proxying
	vsPlain       = "cpu_vs_plain"        // CPU compared with that of a handler which writes the same bytes
	vsProxied     = "cpu_vs_proxied"      // CPU compared with that of a call which the same peer proxies
	vsStored      = "cpu_vs_stored"       // the same, where the answers are kept as copies
)

// figures are what one run, or the median of several, shows.
type figures map[string]float64

// rows are figures by workload.
type rows map[string]figures

func (f figures) latencies(r *load.Result) {
	for name, q := range map[string]float64{p50: 0.5, p99: 0.99, p999: 0.999} {
		f[name] = milliseconds(r.Percentile(q))
	}
}

// typical sets the median of the windows' p50 and p99.
func (f figures) typical(windows []load.Result) {
	rounds := make([]figures, 0, len(windows))
	for i := range windows {
		if windows[i].Calls > 0 {
			rounds = append(rounds, figures{
				p50: milliseconds(windows[i].Percentile(0.5)), p99: milliseconds(windows[i].Percentile(0.99)),
			})
		}
	}
	maps.Copy(f, median(rounds))
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// results hold the figures of every round: workload, peer, round. A nil entry
// is a round in which the peer was not measured.
type results map[string]map[string][]figures

// put adds what a run has shown.
func (r results) put(round int, peer string, measured rows) {
	for workload, f := range measured {
		if r[workload] == nil {
			r[workload] = map[string][]figures{}
		}
		rounds := r[workload][peer]
		for len(rounds) <= round {
			rounds = append(rounds, nil)
		}
		rounds[round] = f
		r[workload][peer] = rounds
	}
}

// compare adds ratios to every round's figures. Each is taken within a round,
// whose runs lie close together in time, before the medians are.
func (r results) compare() {
	for name, byPeer := range r {
		w, known := find(name)
		if !known {
			continue
		}
		base := name
		if w.against != "" {
			base = w.against
		}
		for peer, rounds := range byPeer {
			for i, f := range rounds {
				f.ratio(vsBare, cpu, r.at(base, "bare", i))
				f.ratio(rpsVsBare, rps, r.at(base, "bare", i))
				if w.rate > 0 && !w.outage {
					f.ratio(p99VsBare, p99, r.at(base, "bare", i))
				}
				if w.outage {
					f.ratio(vsPlain, cpu, r.at(name, "plain", i))
					f.ratio(vsProxied, cpu, r.at(base, quiet(peer), i))
					f.ratio(vsStored, cpu, r.at(stored, quiet(peer), i))
				}
			}
		}
	}
}

// quiet is the peer that proxies in the place of one which only answers by
// itself: the logging sidecar is the sidecar.
func quiet(peer string) string {
	if peer == "sidecar-logging" {
		return "sidecar"
	}
	return peer
}

// at returns the figures of a round, nil if there are none.
func (r results) at(workload, peer string, round int) figures {
	rounds := r[workload][peer]
	if round >= len(rounds) {
		return nil
	}
	return rounds[round]
}

// ratio sets a figure to the quotient of another and its base's, if both are
// known.
func (f figures) ratio(name, of string, base figures) {
	if v, known := f[of]; known && base[of] > 0 {
		f[name] = v / base[of]
	}
}

// medians returns workload, peer, figures.
func (r results) medians() map[string]map[string]figures {
	all := map[string]map[string]figures{}
	for workload, byPeer := range r {
		all[workload] = map[string]figures{}
		for peer, rounds := range byPeer {
			all[workload][peer] = median(rounds)
		}
	}
	return all
}

// median returns the median of each figure over the rounds that have it.
func median(rounds []figures) figures {
	values := map[string][]float64{}
	for _, f := range rounds {
		for name, v := range f {
			values[name] = append(values[name], v)
		}
	}
	m := figures{}
	for name, vs := range values {
		slices.Sort(vs)
		m[name] = (vs[(len(vs)-1)/2] + vs[len(vs)/2]) / 2
	}
	return m
}

// MarshalJSON writes figures with four digits that matter.
func (f figures) MarshalJSON() ([]byte, error) {
	short := make(map[string]float64, len(f))
	for name, v := range f {
		short[name] = significant(v, 4)
	}
	return json.Marshal(short)
}

// significant rounds to a number of digits that matter.
func significant(v float64, digits int) float64 {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return v
	}
	scale := math.Pow(10, float64(digits-1)-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}
