package main

import (
	"errors"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"go.uber.org/zap"
)

// memoryShare is the share of the container's memory that Go may fill before
// its collector works harder. The rest is for stacks of the system, buffers of
// the kernel, and what the limit is late to notice.
const memoryShare = 0.8

// limitMemory sets Go's soft memory limit from the memory limit of the cgroup,
// version 1 or 2, as it is at the start. GOMEMLIMIT in the environment stands
// above it.
func (s *sidecar) limitMemory() {
	if given, ok := os.LookupEnv("GOMEMLIMIT"); ok {
		s.log.Info("memory limit", zap.String("from", "GOMEMLIMIT"), zap.String("limit", given))
		return
	}
	limit, err := memlimit.Set(memlimit.WithRatio(memoryShare))
	switch {
	case errors.Is(err, memlimit.ErrCgroupsNotSupported), err == nil && limit == math.MaxInt64:
		s.log.Info("memory limit", zap.String("from", "cgroup"), zap.String("limit", "none"))
	case err != nil:
		s.log.Warn("no memory limit: the cgroup does not tell its own; set GOMEMLIMIT", zap.Error(err))
	default:
		s.log.Info("memory limit", zap.String("from", "cgroup"), zap.Int64("limit", limit))
	}
}

// garbageRoom is how much garbage may pile up before the collector runs. Go by
// itself lets a small heap have as little as 4 MiB, which calls fill many times
// a second, and a large one as much again as is alive in it; but most of a large
// heap is stale copies, whose bodies cost the collector next to nothing.
const garbageRoom = 16 << 20

// paceCollector keeps that room free, whatever the heap holds. GOGC in the
// environment stands above it.
func paceCollector() {
	if _, given := os.LookupEnv("GOGC"); !given {
		debug.SetGCPercent(mostPercent)
		afterCollection(func(percent int) { debug.SetGCPercent(percent) }, mostPercent)
	}
}

// afterCollection sets the collector's pace after its next run, if it is to be
// another than now, and so on after each. It costs nothing in between.
func afterCollection(set func(percent int), now int) {
	mark := &struct{ self *byte }{} // collected by then; pointers keep it apart from others
	runtime.AddCleanup(mark, func(now int) {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		if next := collectorPercent(live[0].Value.Uint64()); next*5 < now*4 || next*4 > now*5 {
			set(next)
			now = next
		}
		afterCollection(set, now)
	}, now)
}

// mostPercent and leastPercent bound the garbage that may lie beside the live
// heap, in percent of it.
const (
	mostPercent  = 400
	leastPercent = 25
)

// collectorPercent is the garbage that may lie beside a heap, in percent of it.
func collectorPercent(live uint64) int {
	return int(min(max(garbageRoom*100/max(live, 1), leastPercent), mostPercent))
}
