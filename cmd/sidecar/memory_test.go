package main

import (
	"runtime"
	"testing"
)

// There is room for 16 MiB of garbage, within what is sensible for very small
// and very large heaps.
func TestCollectorPercent(t *testing.T) {
	const mib = 1 << 20
	for live, want := range map[uint64]int{0: 400, 4 * mib: 400, 8 * mib: 200, 16 * mib: 100, 32 * mib: 50, 40 * mib: 40, 64 * mib: 25, 1 << 40: 25} {
		if got := collectorPercent(live); got != want {
			t.Errorf("%d MiB: %d %%, want %d", live/mib, got, want)
		}
	}
}

// The pace follows the heap after each of the collector's runs, and back.
func TestPaceFollowsTheHeap(t *testing.T) {
	paces := make(chan int, 100)
	afterCollection(func(percent int) { paces <- percent }, 400)
	await := func(want func(int) bool) {
		t.Helper()
		for range 1000 {
			runtime.GC()
			select {
			case got := <-paces:
				if want(got) {
					return
				}
			default:
				runtime.Gosched()
			}
		}
		t.Error("the pace was not set")
	}
	large := make([]byte, 100<<20)
	await(func(p int) bool { return p == 25 })
	runtime.KeepAlive(large)
	await(func(p int) bool { return p > 100 })
}
