// Bench compares the sidecar with other proxies on this machine:
//
//	cd bench && go run .                        all, about an hour; writes RESULTS.md and results.json
//	cd bench && go run . -quick                 shorter loops, writes nothing
//	cd bench && go run . -only open-stale       some workloads, and those that they are compared with
//	cd bench && go run . -peers sidecar,nginx   some peers; bare always runs
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
// with every peer, and who is first changes from round to round. Figures are
// medians of the rounds. Ratios are taken within a round, whose runs lie close
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
//     (package load tells the details).
//   - peak MiB (peak_rss_mib): VmHWM, summed over the peer's processes.
//   - × bare (cpu_vs_bare, rps_vs_bare): compared with bare, a tuned
//     httputil.ReverseProxy. Where bare has no answer of its own, with bare
//     proxying such a call.
//   - × own proxied call (cpu_vs_proxied), × own stored call (cpu_vs_stored):
//     an answer during an outage, compared with a call that the same peer
//     passes on, without and with a stale fallback that keeps its answer.
//   - upstream conns, upstream calls (upstream_conns, upstream_calls): what
//     reached the failing upstream after the warm-up, both loops together.
//   - KiB / parked call (kib_per_parked_call): growth of resident memory when
//     1,000 calls wait, divided by these. Connections are part of it.
//   - answered 200 (answered): share of the calls with a whole answer, fresh
//     or stale, in the time in which B hangs.
//
// # What is the same for all
//
// No access log, connections kept on both sides, number of threads as each
// takes by default, loopback, HTTP/1.1. sidecar-logging keeps the sidecar's
// default log, a line for each degraded call, and is listed where there are
// such calls. plain is a net/http handler that writes the bytes of a degraded
// answer: the least that one costs in Go. How each peer is told what it is to
// do, and what it has no means for, is in peers.
package main
