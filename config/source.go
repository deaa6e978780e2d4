package config

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"sync"
	"time"
)

const (
	// mostSettling is how long a reload that was asked for waits for files to
	// settle.
	mostSettling = 2 * time.Second
	// glance is how often it looks meanwhile.
	glance = 20 * time.Millisecond
)

// Source is a configuration file that is read again and again, together with
// the files that it names: bodies, authorities, certificates and keys. Whatever
// is read was complete: no file is read before it has stayed the same for 250
// ms, and if one changes while they are read, all are read again.
//
// Its methods are safe for concurrent use, but readings (Load, Reload and
// Changed) must not overlap.
type Source struct {
	path    string
	process Process

	mu       sync.Mutex // guards everything below
	settling settling
	paths    []string          // the files of the last reading, of use or not
	read     states            // as they were before it
	content  [sha256.Size]byte // what they held
}

// NewSource returns a source that has not been read yet.
func NewSource(path string, p Process) *Source {
	return &Source{path: path, process: p, paths: []string{path}}
}

// Load reads the files at once, as a start needs it. The error is that of
// [Load].
func (s *Source) Load() (*Config, error) {
	c, in, err := read(s.path, s.process)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.took(in)
	return c, err
}

// Reload reads the files as soon as they have settled, which for files that
// nobody has touched lately is at once, and gives up after 2 s. The error is
// that of [Load], or says that the files keep changing.
func (s *Source) Reload(ctx context.Context) (*Config, error) {
	ctx, cancel := context.WithTimeout(ctx, mostSettling)
	defer cancel()
	for {
		if wait, _ := s.look(); wait == 0 {
			if c, _, settled, err := s.take(); settled {
				return c, err
			}
		}
		select {
		case <-time.After(glance):
		case <-ctx.Done():
			s.mu.Lock()
			s.content = [sha256.Size]byte{} // whatever they hold in the end has not been read
			s.mu.Unlock()
			return nil, fmt.Errorf("%s, or a file it names, is still being written; reload again once it is complete", s.path)
		}
	}
}

// Changed reads the files if they have changed since the last reading and have
// settled. It reports false if they have not, or if they hold what they held
// then: equal bytes change nothing. The error is that of [Load].
func (s *Source) Changed() (c *Config, changed bool, err error) {
	if wait, pending := s.look(); !pending || wait > 0 {
		return nil, false, nil
	}
	c, changed, settled, err := s.take()
	return c, changed && settled, err
}

// look takes the files' present states. It returns how long they must still
// stay so before they may be read, and whether they differ from those that were
// read last.
func (s *Source) look() (wait time.Duration, pending bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	present := statesOf(s.paths)
	return s.settling.look(time.Now(), present), !maps.Equal(present, s.read)
}

// take reads files that have settled. It reports whether they hold something
// else than last time, and whether they, and those that were not known to
// belong to them before, have stayed the same: if not, nothing was taken.
func (s *Source) take() (c *Config, changed, settled bool, err error) {
	c, in, err := read(s.path, s.process)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paths = in.all()
	if s.settling.look(time.Now(), statesOf(s.paths)) > 0 {
		return nil, false, false, nil
	}
	before := s.content
	s.took(in)
	return c, s.content != before, true, err
}

// took notes what a reading found. The caller holds mu.
func (s *Source) took(in intake) {
	s.paths = in.all()
	s.read = in.states()
	s.content = in.digest(s.paths...)
}

// missing reports whether the configuration file is absent or empty: whoever
// replaces it has only begun.
func (s *Source) missing() bool { return stateOf(s.path).size == 0 }

// forgo counts the files as read, although they were not.
func (s *Source) forgo() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read = s.settling.seen
}
