package main

import (
	"errors"
	"math"
	"os"

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
