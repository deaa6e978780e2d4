// Package machine tells where figures were seen.
package machine

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// Describe describes the machine, as a Markdown list.
func Describe() string {
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		kernel = []byte("unknown")
	}
	return fmt.Sprintf("- %s, %d cores (%s)\n- Linux %s, %s\n- %s\n",
		Processor(), runtime.NumCPU(), runtime.GOARCH, strings.TrimSpace(string(kernel)), runtime.Version(),
		time.Now().UTC().Format("2 January 2006"))
}

// Processor returns the model of the first CPU.
func Processor() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown processor"
	}
	for line := range strings.Lines(string(info)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown processor"
}

// Load returns the load average of the last minute, 0 if it is unknown.
func Load() (load float64) {
	text, err := os.ReadFile("/proc/loadavg")
	if err == nil {
		_, _ = fmt.Sscan(string(text), &load)
	}
	return load
}
