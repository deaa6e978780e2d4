package stale

import (
	"crypto/hmac"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// UseDisk has copies written to a directory from now on; nil for none. A store
// without shelves takes the directory's key, and its copies once
// [Store.ReadDisk] is called. For one that already runs, the directory begins
// anew with the copies that are in memory; the directory of before is emptied,
// since what changes from now on would not reach it.
func (s *Store) UseDisk(d *Disk) {
	shelves := s.all()
	if before := s.disk.Load(); before != nil {
		before.leave()
	}
	if d != nil {
		if len(shelves) == 0 {
			s.secret = d.secret
		} else {
			d.begin(s.secret)
		}
		go d.run()
	}
	s.disk.Store(d)
	for _, shelf := range shelves {
		for c := range shelf.entries.Values() {
			d.write(shelf, c)
		}
	}
}

// ReadDisk brings the copies in the directory back, in the background. Calls
// are served meanwhile; newer copies stay.
func (s *Store) ReadDisk() {
	d := s.disk.Load()
	if d == nil {
		return
	}
	s.reading.Go(func() { s.read(d) })
}

// read reads all files.
func (s *Store) read(d *Disk) {
	bad, last := 0, error(nil)
	for name := d.unread(); name != ""; name = d.unread() {
		path := filepath.Join(d.dir, name)
		if err := s.readFile(d, path); err != nil {
			if !errors.Is(err, errUnwanted) {
				bad, last = bad+1, fmt.Errorf("%s: %w", name, err)
			}
			_ = os.Remove(path)
		}
		d.wasRead(name)
	}
	if bad > 0 {
		d.warn(fmt.Sprintf("%d files in cache.dir %s cannot be used and are skipped; the last one: %v", bad, d.dir, last))
	}
}

// unread returns the name of a file to read next, or "".
func (d *Disk) unread() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-d.stop:
		return ""
	default:
	}
	for _, names := range d.pending {
		return names[0]
	}
	d.pending = nil
	return ""
}

// wasRead takes a file out of those to be read.
func (d *Disk) wasRead(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	first := targetOf(name)
	if left := slices.DeleteFunc(d.pending[first], func(n string) bool { return n == name }); len(left) > 0 {
		d.pending[first] = left
	} else {
		delete(d.pending, first)
	}
}

// errUnwanted says that a good copy has no place any more.
var errUnwanted = errors.New("nobody wants it")

// readFile brings one copy back.
func (s *Store) readFile(d *Disk, path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return errUnwanted // dropped meanwhile
	}
	if !info.Mode().IsRegular() {
		return errForeign // reading a pipe might never end
	}
	if info.Size() > int64(prefixSize)+mostMeta+s.maxObject.Load() {
		return errUnwanted // max_object_bytes has become smaller
	}
	file, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	about, c, err := decode(d.secret, file, time.Now())
	if err != nil {
		return err
	}
	if fileName(d.secret, about.Dependency, c.target, c.key) != filepath.Base(path) {
		return errMoved
	}
	shelf := s.find(about.Dependency, about.Upstream)
	if shelf == nil || int64(len(c.body)) > s.maxObject.Load() {
		return errUnwanted
	}
	return shelf.restore(c)
}

// find returns the shelf of a dependency's upstream, or nil.
func (s *Store) find(dependency string, upstream []byte) *Shelf {
	for _, shelf := range s.all() {
		if shelf.name == dependency && shelf.Wanted() && hmac.Equal(keyed(s.secret, shelf.upstream), upstream) {
			return shelf
		}
	}
	return nil
}

// restore puts a copy from the disk in its place, unless its target was changed
// since the start. A newer copy that has come since stays, and has a file of
// the same name.
func (s *Shelf) restore(c *Copy) error {
	p := s.stripe(c.target)
	p.mu.Lock()
	defer p.mu.Unlock()
	v := p.targets[c.target]
	if p.closed || s.epoch(c.target).Load() != 0 || v != nil && !slices.Equal(v.names, c.names) {
		return errUnwanted
	}
	s.set(p, c)
	return nil
}
