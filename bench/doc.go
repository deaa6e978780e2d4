// Bench compares the sidecar with other proxies on this machine:
//
//	cd bench && go run .                        all, about half an hour; writes RESULTS.md and results.json
//	cd bench && go run . -quick                 one round with shorter loops, writes nothing
//	cd bench && go run . -only open-stale       some workloads, and those that they are compared with
//	cd bench && go run . -peers sidecar,nginx   some peers; bare always runs
//	cd bench && go run . -rounds 9 -length 5s   more and longer
//	cd bench && go run . -other FILE            another binary of the sidecar beside that of this source
//	cd bench && go run . -pgo                   writes ../cmd/sidecar/default.pgo, see below
//
// It needs Linux and Go. It builds the sidecar, and three programs of its own
// (peers/bare, peers/plain, peers/handwritten); nginx, haproxy, caddy, traefik
// and varnishd are used if they are on the PATH and reported as absent if not.
// On Debian:
//
//	apt-get install nginx-light haproxy varnish gcc
//	go install github.com/caddyserver/caddy/v2/cmd/caddy@latest
//
// Traefik cannot be installed by go install, since its module replaces others.
// It is on its project's page of releases, or is built from a copy of its
// module: `go mod download -json github.com/traefik/traefik/v3@v3.0.4` names the
// folder, and there, with any file in webui/static, `go build ./cmd/traefik`.
//
// # What is measured
//
// A run is one peer under one workload: a fresh process, an upstream, a
// warm-up, a closed loop and an open one. In each round every workload is run
// with every peer, and who is first changes from round to round. Rows of second
// rank have loops half as long, and they and the slow ones are run in the first
// two or three rounds alone. Figures are medians of the rounds. Ratios are taken within a round, whose runs lie close
// together, before their median is: on a busy machine they hold when the
// figures themselves do not. A run in which more than one call in a thousand
// has another answer than expected counts for nothing, and is named below the
// table.
//
//   - CPU s / 100,000 (cpu_s_per_100k): user and system time of the peer and
//     all its children in the closed loop (/proc/PID/stat), for 100,000 calls.
//     Upstream and load are not in it. The unit of the kernel is 10 ms.
//   - calls/s (rps): of the closed loop, in which every connection calls again
//     as soon as it has its answer. Load, upstream and peer share the cores, so
//     this says less than the CPU does.
//   - p50, p99, p99.9 (p50_ms, p99_ms, p999_ms): latency at a fixed rate, the
//     same for all peers, counted from the instant at which a call was due
//     (package load tells the details). p50 and p99 are those of a quarter of a
//     second, or of 200 calls if that is longer, in the median; p99.9 is that of
//     the whole loop. Processes that share two cores keep each other waiting for
//     some ten milliseconds about once a second; p99.9 shows it.
//   - peak MiB (peak_rss_mib): VmHWM, summed over the peer's processes.
//   - × bare (cpu_vs_bare, rps_vs_bare): compared with bare, a tuned
//     httputil.ReverseProxy. Where bare has no answer of its own, with bare
//     proxying such a call.
//   - p99 × bare (p99_vs_bare): p99 of a proxied call compared with bare's, at
//     the same rate.
//   - × plain (cpu_vs_plain): an answer during an outage, compared with plain, a
//     net/http handler that decides nothing and writes the same bytes. They are
//     recorded from the sidecar at the beginning; Date alone is net/http's own.
//   - × own proxied call (cpu_vs_proxied), × own stored call (cpu_vs_stored):
//     an answer during an outage, compared with a call that the same peer
//     passes on, without and with a stale fallback that keeps its answer.
//   - upstream conns, upstream calls (upstream_conns, upstream_calls): what
//     reached the failing upstream after the warm-up, both loops together.
//   - KiB / parked call (kib_per_parked_call): growth of resident memory when
//     1,000 calls wait, divided by these. Connections are part of it.
//   - p99 ms before, p99 × before (p99_before_ms, p99_vs_before): the three
//     seconds before B hangs, and the nine in which it does compared with them,
//     in the same run.
//   - p99 ms after the trip (p99_after_trip_ms): of the calls to B that come
//     later than twice the timeout after it began to hang.
//   - answered 200 (answered): share of the calls with a whole answer, fresh
//     or stale, in the time in which B hangs.
//   - at the sick upstream, there later (at_upstream, at_upstream_later): the
//     requests that B got until then, and after it: probes, in a peer that
//     knows. The sidecar is told to open at the first timeout: then no more
//     calls reach B than there are permits. With its default of five in a row,
//     the permits that the first four give back let four more through. Varnish's
//     checks of health are among them. nginx and Varnish
//     answer from their copies before the outage too, for a second each.
//   - idle MiB, MiB after calls (idle_rss_mib, rested_rss_mib): VmRSS after
//     two seconds without a call, at first and after a burst of calls to each
//     of the ten upstreams.
//   - ready after ms (start_ms): from the start of the program until its /readyz
//     is 200, or, of a peer that has none, until all its listeners accept and a
//     call is answered; asked each millisecond, median of five starts.
//   - ns, allocations (ns, allocs): of one refusal by the sidecar's breaker, by
//     its own benchmark in the source.
//
// # What is the same for all
//
// No access log, connections kept on both sides, number of threads as each
// takes by default, loopback, HTTP/1.1. sidecar-logging keeps the sidecar's
// default log, a line for each degraded call, and is listed where there are
// such calls. The sidecar has everything armed: breaker, bulkhead, deadline,
// retries and metrics. How each peer is told what it is to
// do, and what it has no means for, is in peers.
//
// # The promises
//
// RESULTS.md begins with what the sidecar promises (criteria, in acceptance.go),
// each held against the figures of the run.
//
// # The profile
//
// `make pgo` builds the sidecar without a profile, takes its CPU profile, from
// its own pprof endpoint, under six of the workloads (proxied, with a body,
// stored, refused, static, stale), merges them and writes
// cmd/sidecar/default.pgo, which `go build` uses from then on. What it gives is
// seen beside a binary without it:
//
//	go build -pgo off -trimpath -ldflags '-s -w' -o /tmp/without ./cmd/sidecar
//	cd bench && go run . -rounds 8 -only get-1k-c32,open-stale -peers sidecar,sidecar-other -other /tmp/without
package main
