package main

import (
	"bytes"
	"fmt"

	"sidecar/bench/peers"
)

// Sizes of bodies.
const (
	kib = 1 << 10
	mib = 1 << 20
)

// workload is a row of the benchmark: what is called, and how.
type workload struct {
	name    string
	about   string
	policy  peers.Policy
	upload  int  // bytes of the request's body; above 0 it is a POST
	answer  int  // bytes of the upstream's answer
	conns   int  // connections of the app
	rate    int  // calls a second of the open loop
	fresh   bool // a connection for each call
	outage  bool // the upstream fails once a copy could be kept; answers of its own still count
	status  int  // of the answers during the outage; 0 = 200
	anySize bool // the answer's length is not looked at
	rounds  int  // at most so many; such rows have loops half as long; 0 = all

	against string // the workload whose bare proxy, and whose calls by the same peer, this is compared with; "" = itself
	with    string // the workload whose run fills this row too; "" = none
	run     runner // nil = steady
}

// runner measures one peer, once. A run may fill several rows.
type runner func(b *bench, w *workload, p peers.Peer) (rows, error)

// Names of workloads that others speak of.
const (
	proxied     = "get-1k-c32"
	posted      = "post-16k"
	stored      = "get-1k-stored"
	openRefused = "open-refused"
	openStatic  = "open-static"
	openStale   = "open-stale"
	deciding    = "decision"
	waiting     = "parked"
	resting     = "idle"
	starting    = "start"
)

// The workloads, in the order in which they are run and printed.
var workloads = []workload{
	{name: "get-1k-c1", about: "GET, 1 KiB down, 1 connection", answer: kib, conns: 1, rate: 1000, rounds: 3},
	{name: proxied, about: "GET, 1 KiB down, 32 connections", answer: kib, conns: 32, rate: 2000},
	{name: "get-1k-c256", about: "GET, 1 KiB down, 256 connections", answer: kib, conns: 256, rate: 2000, rounds: 3},
	{
		name: posted, about: "POST, 16 KiB up, 1 KiB down, 32 connections",
		upload: 16 * kib, answer: kib, conns: 32, rate: 1000, rounds: 3,
	},
	{name: "get-1m", about: "GET, 1 MiB down, 8 connections", answer: mib, conns: 8, rate: 200, rounds: 3},
	{
		name: "new-connections", about: "GET, 1 KiB down, a connection for each call, 32 at once",
		answer: kib, conns: 32, rate: 500, fresh: true, rounds: 3,
	},
	{
		name: stored, about: "GET, 1 KiB down, 32 connections, each answer kept for a stale fallback",
		policy: peers.Store, answer: kib, conns: 32, rate: 2000, against: proxied,
	},
	{
		name: openRefused, about: "GET while the upstream fails, answered with a 503 of the peer's own, 32 connections",
		policy: peers.Refuse, answer: kib, conns: 32, rate: 2000, outage: true, status: 503, anySize: true, against: proxied,
	},
	{
		name: openStatic, about: "GET while the upstream fails, answered with a fixed body of 1 KiB, 32 connections",
		policy: peers.Static, answer: kib, conns: 32, rate: 2000, outage: true, anySize: true, against: proxied,
	},
	{
		name: openStale, about: "GET while the upstream fails, answered with a stale copy of 1 KiB, 32 connections",
		policy: peers.Stale, answer: kib, conns: 32, rate: 2000, outage: true, against: proxied,
	},
	{name: deciding, about: "the open breaker's refusal by itself, BenchmarkRefused of resilience/breaker", run: decision, rounds: 3},
	{
		name: waiting, about: "1,000 calls wait behind one that hangs: in the peer's queue, or at the upstream where it has none",
		policy: peers.Queue, answer: kib, conns: 1000, run: parked, rounds: 3,
	},
	{name: sickA, about: sickAbout + "; the calls to A", policy: peers.Guard, run: sick, rounds: 3},
	{name: sickB, about: sickAbout + "; the calls to B, while it hangs", with: sickA},
	{name: resting, about: "a peer with 10 upstreams that nobody calls", answer: kib, conns: 8, run: idle, rounds: 2},
	{name: starting, about: "from the start of the program with 10 upstreams until it is ready", with: resting},
}

// request returns the bytes of one request.
func (w *workload) request(host string) []byte {
	if w.upload == 0 {
		return fmt.Appendf(nil, "GET /things/1?size=small HTTP/1.1\r\nHost: %s\r\nAccept: */*\r\n\r\n", host)
	}
	head := fmt.Appendf(nil, "POST /things HTTP/1.1\r\nHost: %s\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\n",
		host, w.upload)
	return append(head, bytes.Repeat([]byte("r"), w.upload)...)
}

// find returns the workload of a name.
func find(name string) (*workload, bool) {
	for i := range workloads {
		if workloads[i].name == name {
			return &workloads[i], true
		}
	}
	return nil, false
}
