package config

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// mountedAlone reports whether a file is a mount of its own, as with subPath in
// Kubernetes. Such a file stays the one that was mounted, whatever takes its
// place outside. Where the system does not tell, it reports false.
func mountedAlone(path string) bool {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return false
	}
	if real, err = filepath.Abs(real); err != nil {
		return false
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	return err == nil && isMountPoint(real, string(mounts))
}

// isMountPoint looks for a path among the mounts of proc_pid_mountinfo(5): the
// fifth field of a line, with spaces and the like as octal escapes.
func isMountPoint(path, mounts string) bool {
	for line := range strings.Lines(mounts) {
		if fields := strings.Fields(line); len(fields) > 4 && unescapeOctal(fields[4]) == path {
			return true
		}
	}
	return false
}

func unescapeOctal(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if code, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(code))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
