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
	anySize bool // the answer's length is not looked at

	against string // the workload whose bare proxy, and whose calls by the same peer, this is compared with; "" = itself
	with    string // the workload whose run fills this row too; "" = none
	run     runner // nil = steady
}

// runner measures one peer, once. A run may fill several rows.
type runner func(b *bench, w *workload, p peers.Peer) (rows, error)

// The workloads, in the order in which they are run and printed.
var workloads = []workload{
	{name: "get-1k-c1", about: "GET, 1 KiB down, 1 connection", answer: kib, conns: 1, rate: 1000},
	{name: "get-1k-c32", about: "GET, 1 KiB down, 32 connections", answer: kib, conns: 32, rate: 2000},
	{name: "get-1k-c256", about: "GET, 1 KiB down, 256 connections", answer: kib, conns: 256, rate: 2000},
	{name: "post-16k", about: "POST, 16 KiB up, 1 KiB down, 32 connections", upload: 16 * kib, answer: kib, conns: 32, rate: 1000},
	{name: "get-1m", about: "GET, 1 MiB down, 8 connections", answer: mib, conns: 8, rate: 100},
	{name: "new-connections", about: "GET, 1 KiB down, a connection for each call, 32 at once", answer: kib, conns: 32, rate: 500, fresh: true},
	{
		name: "get-1k-stored", about: "GET, 1 KiB down, 32 connections, each answer kept for a stale fallback",
		policy: peers.Store, answer: kib, conns: 32, rate: 2000, against: "get-1k-c32",
	},
	{
		name: "open-static", about: "GET while the upstream fails, answered with a fixed body of 1 KiB, 32 connections",
		policy: peers.Static, answer: kib, conns: 32, rate: 2000, outage: true, anySize: true, against: "get-1k-c32",
	},
	{
		name: "open-stale", about: "GET while the upstream fails, answered with a stale copy of 1 KiB, 32 connections",
		policy: peers.Stale, answer: kib, conns: 32, rate: 2000, outage: true, against: "get-1k-c32",
	},
	{
		name: "parked", about: "1,000 calls wait behind one that hangs: in the peer's queue, or at the upstream where it has none",
		policy: peers.Queue, answer: kib, conns: 1000, run: parked,
	},
	{name: sickA, about: sickAbout + "; the calls to A, while B hangs", policy: peers.Guard, run: sick},
	{name: sickB, about: sickAbout + "; the calls to B, while it hangs", with: sickA},
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
