package config

import (
	"maps"
	"time"
)

// quiet is how long files must have stayed the same before they are read, so
// that one that is half written is not.
const quiet = 250 * time.Millisecond

// settling tells since when files have stayed the same. It reads neither clock
// nor file.
type settling struct {
	seen  states    // at the last look
	since time.Time // when they were first seen so
}

// look takes the files as they are at a moment and returns how long they must
// still stay so before they may be read; 0 if they may be.
func (s *settling) look(now time.Time, present states) time.Duration {
	if !maps.Equal(present, s.seen) {
		s.seen, s.since = present, now
	}
	return max(0, quiet-now.Sub(s.since))
}
