package stale

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
)

const (
	// writeDelay gathers what changes in short time into one round of writing:
	// a copy that is renewed a hundred times a second is written once.
	writeDelay = time.Second
	// roundBytes bounds what one round writes; the rest waits for the next.
	roundBytes = 32 << 20
)

var ourFile = regexp.MustCompile(`^[0-9a-f]{64}\.copy(\.new)?$`)

// Disk is a directory that holds copies over a restart. One process at a time
// uses it. A nil Disk holds nothing. It is safe for concurrent use.
type Disk struct {
	dir    string
	warn   func(string)
	lock   *flock.Flock
	secret []byte
	wake   chan struct{}
	stop   chan struct{}
	done   chan struct{}

	mu      sync.Mutex // guards everything below
	dirty   map[place]struct{}
	pending map[string][]string // files not read yet, by [targetName]; nil once all are
	failing bool                // the last write did
}

// place is where a copy stands in memory.
type place struct {
	shelf *Shelf
	key   string
}

// OpenDisk opens a directory, and makes it where there is none: readable for
// this user alone. Errors say what stands in the way. warn is told what is
// found to be wrong later.
func OpenDisk(dir string, warn func(string)) (*Disk, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("%w; name a directory that this user can make", err)
	}
	d := &Disk{
		dir: dir, warn: warn, lock: flock.New(filepath.Join(dir, "lock"), flock.SetPermissions(0o600)),
		wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
		dirty: map[place]struct{}{}, pending: map[string][]string{},
	}
	switch locked, err := d.lock.TryLock(); {
	case err != nil:
		return nil, fmt.Errorf("%w; name a directory that this user can write to", err)
	case !locked:
		return nil, fmt.Errorf("%s is in use by another sidecar; give each a directory of its own", dir)
	}
	if err := d.open(); err != nil {
		_ = d.lock.Unlock()
		return nil, err
	}
	return d, nil
}

// open reads the key and the names of the files.
func (d *Disk) open() error {
	path := filepath.Join(d.dir, "key")
	secret, err := os.ReadFile(path)
	if err != nil || len(secret) != 32 {
		secret = make([]byte, 32)
		_, _ = rand.Read(secret) // never fails
		if err := replaceFile(path, secret); err != nil {
			return fmt.Errorf("%w; name a directory that this user can write to", err)
		}
	}
	d.secret = secret
	files, err := os.ReadDir(d.dir)
	if err != nil {
		return fmt.Errorf("%w; name a directory that this user can read", err)
	}
	foreign := 0
	for _, f := range files {
		switch name := f.Name(); {
		case name == "key", name == "lock", name == "key.new":
		case !ourFile.MatchString(name):
			foreign++
		case strings.HasSuffix(name, ".new"): // the last process ended while it wrote
			_ = os.Remove(filepath.Join(d.dir, name))
		default:
			d.pending[targetOf(name)] = append(d.pending[targetOf(name)], name)
		}
	}
	if foreign > 0 {
		d.warn(fmt.Sprintf("cache.dir %s holds %d files that are no copies of ours; they are left alone", d.dir, foreign))
	}
	return nil
}

// replaceFile puts a file in place at once, so that no reader ever sees a part.
func replaceFile(path string, data []byte) error {
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// write has a copy written soon.
func (d *Disk) write(s *Shelf, c *Copy) {
	if d == nil {
		return
	}
	d.mu.Lock()
	d.dirty[place{s, c.key}] = struct{}{}
	d.mu.Unlock()
	d.stir()
}

func (d *Disk) stir() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// remove removes a copy's file. The stripe of its target is locked, so no
// older copy is put in place after it.
func (d *Disk) remove(s *Shelf, target, key string) {
	if d != nil {
		_ = os.Remove(d.path(s, target, key))
	}
}

// removeUnread removes the files of a target that have not been read yet.
func (d *Disk) removeUnread(s *Shelf, target string) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pending == nil {
		return
	}
	first := targetName(d.secret, s.name, target)
	for _, name := range d.pending[first] {
		_ = os.Remove(filepath.Join(d.dir, name))
	}
	delete(d.pending, first)
}

func (d *Disk) path(s *Shelf, target, key string) string {
	return filepath.Join(d.dir, fileName(d.secret, s.name, target, key))
}

// run writes what has changed until the disk is closed, then what is left.
func (d *Disk) run() {
	defer close(d.done)
	for {
		select {
		case <-d.stop:
			for d.round() {
			}
			return
		case <-d.wake:
		}
		select {
		case <-d.stop:
		case <-time.After(writeDelay):
		}
		if d.round() {
			d.stir()
		}
	}
}

// round writes some of what has changed, and reports whether more is left.
func (d *Disk) round() bool {
	written := 0
	for written < roundBytes {
		at, ok := d.next()
		if !ok {
			return false
		}
		n, err := d.writeCopy(at)
		written += n
		d.report(err)
	}
	return true
}

func (d *Disk) next() (at place, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for at = range d.dirty {
		delete(d.dirty, at)
		return at, true
	}
	return at, false
}

// writeCopy writes the copy that is now at a place, if it is still there when
// its file is complete.
func (d *Disk) writeCopy(at place) (int, error) {
	current := func() *Copy {
		e, _ := at.shelf.entries.GetEntryQuietly(at.key)
		return e.Value
	}
	c := current()
	if c == nil {
		return 0, nil
	}
	file, err := encode(d.secret, at.shelf, c)
	if err != nil {
		return 0, err
	}
	path := d.path(at.shelf, c.target, c.key)
	if err := os.WriteFile(path+".new", file, 0o600); err != nil {
		return len(file), errors.Join(err, os.Remove(path+".new"))
	}
	p := at.shelf.stripe(c.target)
	p.mu.Lock()
	defer p.mu.Unlock()
	if current() != c {
		return len(file), os.Remove(path + ".new")
	}
	return len(file), os.Rename(path+".new", path)
}

// report warns of the first of several failures.
func (d *Disk) report(err error) {
	d.mu.Lock()
	failing := d.failing
	d.failing = err != nil
	d.mu.Unlock()
	if err != nil && !failing {
		d.warn(fmt.Sprintf("a stale copy cannot be written to cache.dir: %v; see to its space and permissions", err))
	}
}

// Discard gives back a directory that is not to be used after all.
func (d *Disk) Discard() {
	if d != nil {
		_ = d.lock.Unlock()
	}
}

// close writes what is left and gives the directory free.
func (d *Disk) close() {
	close(d.stop)
	<-d.done
	_ = d.lock.Unlock()
}

// leave writes no more, empties the directory and gives it free.
func (d *Disk) leave() {
	d.mu.Lock()
	clear(d.dirty)
	d.mu.Unlock()
	close(d.stop)
	<-d.done
	d.empty()
	_ = d.lock.Unlock()
}

// begin empties the directory and gives it a key.
func (d *Disk) begin(secret []byte) {
	d.empty()
	d.pending, d.secret = nil, secret
	d.report(replaceFile(filepath.Join(d.dir, "key"), secret))
}

// empty removes all copies: what is no longer kept up must not be read later.
func (d *Disk) empty() {
	files, _ := os.ReadDir(d.dir)
	for _, f := range files {
		if ourFile.MatchString(f.Name()) {
			_ = os.Remove(filepath.Join(d.dir, f.Name()))
		}
	}
}
