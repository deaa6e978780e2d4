package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of utime and stime: USER_HZ, 100 on every Linux that Go
// runs on (proc_pid_stat(5)).
const tick = 10 * time.Millisecond

// usage is what a process and its descendants have used.
type usage struct {
	cpu  time.Duration // user and system time, that of ended children included
	rss  int64         // bytes resident now
	peak int64         // bytes resident at most
}

// measure reads the usage of a process and all its descendants. Resident bytes
// are summed over processes, so that pages which they share count more than
// once.
func measure(pid int) (usage, error) {
	stats, err := allStats()
	if err != nil {
		return usage{}, err
	}
	var sum usage
	for _, id := range family(pid, stats) {
		sum.cpu += stats[id].cpu
		rss, peak, err := resident(id)
		if err != nil {
			continue // it has just ended
		}
		sum.rss += rss
		sum.peak += peak
	}
	if sum.peak == 0 {
		return sum, fmt.Errorf("process %d has ended", pid)
	}
	return sum, nil
}

// stat is what matters of /proc/PID/stat.
type stat struct {
	parent int
	cpu    time.Duration
}

// allStats reads the stat of every process.
func allStats() (map[int]stat, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	stats := make(map[int]stat, len(files))
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil {
			continue // it has just ended
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			return nil, err
		}
		if stats[pid], err = parseStat(line); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return stats, nil
}

// parseStat reads a line of /proc/PID/stat. The name, in parentheses, may hold
// anything, so the fields are counted from its end.
func parseStat(line []byte) (stat, error) {
	end := bytes.LastIndexByte(line, ')')
	fields := strings.Fields(string(line[end+1:]))
	if end < 0 || len(fields) < 15 {
		return stat{}, fmt.Errorf("not a stat line: %q", line)
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return stat{}, err
	}
	s := stat{parent: parent}
	for _, field := range fields[11:15] { // utime, stime, cutime, cstime
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return stat{}, err
		}
		s.cpu += time.Duration(ticks) * tick
	}
	return s, nil
}

// family returns a process and its descendants.
func family(pid int, stats map[int]stat) []int {
	members := []int{pid}
	for i := 0; i < len(members); i++ {
		for id, s := range stats {
			if s.parent == members[i] && id != members[i] {
				members = append(members, id)
			}
		}
	}
	return members
}

// resident reads VmRSS and VmHWM of a process, in bytes.
func resident(pid int) (now, peak int64, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		if name != "VmRSS" && name != "VmHWM" {
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			return 0, 0, err
		}
		if name == "VmRSS" {
			now = kib << 10
		} else {
			peak = kib << 10
		}
	}
	return now, peak, nil
}
