//go:build unix

package config

import "golang.org/x/sys/unix"

// state is what tells a file from an earlier one at the same path, behind
// whatever links. The zero value is a file that is not there. The time of the
// inode's change catches what keeps size and time of writing, such as cp -p, and
// a change of the permissions.
type state struct {
	device, inode    uint64
	size             int64
	written, changed unix.Timespec
}

func stateOf(path string) state {
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil {
		return state{}
	}
	return state{uint64(s.Dev), s.Ino, s.Size, s.Mtim, s.Ctim} //nolint:unconvert // some systems have another type
}
