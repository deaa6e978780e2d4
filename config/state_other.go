//go:build !unix

package config

import (
	"os"
	"time"
)

// state is what tells a file from an earlier one at the same path. The zero
// value is a file that is not there.
type state struct {
	size    int64
	written time.Time
}

func stateOf(path string) state {
	info, err := os.Stat(path)
	if err != nil {
		return state{}
	}
	return state{info.Size(), info.ModTime()}
}
