package stale

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// host is a directory, and what runs on it one after the other.
type host struct {
	*testing.T
	dir      string
	unread   bool // the test reads the files when it wants to
	mu       sync.Mutex
	warnings []string
}

func (h *host) warn(text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.warnings = append(h.warnings, text)
}

// run lets a store use the directory for as long as the test function takes,
// with the shelves of two dependencies. At its end all is written.
func (h *host) run(test func(r *rig, other *Shelf)) {
	h.Helper()
	synctest.Test(h.T, func(t *testing.T) {
		d, err := OpenDisk(h.dir, h.warn)
		if err != nil {
			t.Fatal(err)
		}
		r := &rig{T: t, store: NewStore(1<<20, 64<<10)}
		r.store.UseDisk(d)
		r.shelf = r.store.Shelf("payments", "http://user:secret@upstream.internal")
		other := r.store.Shelf("catalog", "http://other.internal")
		r.shelf.Want(true)
		other.Want(true)
		if !h.unread {
			r.store.ReadDisk()
			synctest.Wait()
		}
		test(r, other)
		r.store.Close()
	})
}

// files lists the copies on disk.
func (h *host) files() []string {
	h.Helper()
	all, err := filepath.Glob(filepath.Join(h.dir, "*.copy"))
	if err != nil {
		h.Fatal(err)
	}
	return all
}

// A copy comes back with all that decides on its use, and its age goes on.
func TestCopiesSurviveARestart(t *testing.T) {
	h := &host{T: t, dir: filepath.Join(t.TempDir(), "a", "b")}
	de, keyed := fields("Accept-Language: de"), fields("Authorization: Bearer topsecret")
	h.run(func(r *rig, other *Shelf) {
		r.keep(given{
			req: de, body: "hallo", header: fields("Vary: Accept-Language", "Cache-Control: max-age=60, stale-if-error=100", "Age: 5", "X-A: 1"),
		})
		r.keep(given{ticket: r.shelf.Ask("/own"), req: keyed, body: "mine", varyBy: []string{"Authorization"}})
		r.keep(given{ticket: r.shelf.Ask("/204"), status: 204})
		r.keep(given{ticket: other.Ask("/x"), body: strings.Repeat("x", 60<<10)})
		time.Sleep(3 * time.Second)
	})
	h.run(func(r *rig, other *Shelf) {
		// The clock of a bubble begins anew: it was set back by 3 s.
		time.Sleep(3*time.Second + 7*time.Second)
		c := r.shelf.Find("/x", asked(de), time.Now(), time.Hour, nil)
		if c == nil || string(c.body) != "hallo" || c.header.Get("X-A") != "1" || c.Age(time.Now()) != 15*time.Second || c.TTL(time.Now()) != 45*time.Second {
			r.Errorf("got %+v", c)
		}
		r.want("-", "Accept-Language: fr")
		if got := r.find("/own", keyed, "Authorization"); got != "mine" {
			r.Errorf("the user got %q", got)
		}
		if got := r.find("/own", fields("Authorization: other"), "Authorization"); got != "-" {
			r.Errorf("another user got %q", got)
		}
		if c := r.shelf.Find("/204", asked(nil), time.Now(), time.Hour, nil); c == nil || c.status != 204 {
			r.Errorf("got %+v", c)
		}
		if c := other.Find("/x", asked(nil), time.Now(), time.Hour, nil); c == nil || len(c.body) != 60<<10 {
			r.Errorf("got %+v", c)
		}
		time.Sleep(145 * time.Second) // to the end of stale-if-error
		r.want("hallo", "Accept-Language: de")
		time.Sleep(time.Nanosecond)
		r.want("-", "Accept-Language: de")
	})
	if len(h.warnings) != 0 {
		t.Errorf("warnings %v", h.warnings)
	}
}

// The disk follows the memory: renewed, dropped and evicted copies.
func TestDiskFollowsMemory(t *testing.T) {
	h := &host{T: t, dir: t.TempDir()}
	h.run(func(r *rig, other *Shelf) {
		for i := range 100 {
			r.keep(given{body: fmt.Sprint(i)})
		}
		time.Sleep(2 * writeDelay)
		if n := len(h.files()); n != 1 {
			r.Errorf("%d files for one copy", n)
		}
		r.shelf.Drop("/x")
		if n := len(h.files()); n != 0 {
			r.Errorf("%d files are left when the drop is done", n)
		}
		r.keep(given{body: "again"})
		r.shelf.Drop("/x") // before it was written
		time.Sleep(2 * writeDelay)
		if n := len(h.files()); n != 0 {
			r.Errorf("%d files of a copy that was dropped before", n)
		}
		r.flood(other, 0, 100, 20<<10)
		time.Sleep(2 * writeDelay)
		if n := r.store.Snapshot().Entries; len(h.files()) != n {
			r.Errorf("%d files for %d copies", len(h.files()), n)
		}
		r.shelf.Want(false)
		other.Close()
		if n := len(h.files()); n != 0 {
			r.Errorf("%d files are left of shelves that are closed", n)
		}
	})
}

// A dependency that is removed and comes back while its last calls end has its
// files to itself.
func TestShelfComesBack(t *testing.T) {
	h := &host{T: t, dir: t.TempDir()}
	h.run(func(r *rig, _ *Shelf) {
		before, late := r.shelf, r.shelf.Ask("/x")
		r.keep(given{body: "old"})
		r.shelf = r.store.Shelf("payments", before.upstream)
		r.shelf.Want(true)
		r.want("-")
		r.keep(given{body: "new"})
		r.keep(given{ticket: late, body: "late"})
		time.Sleep(2 * writeDelay)
		before.Close()
		r.want("new")
	})
	h.run(func(r *rig, _ *Shelf) { r.want("new") })
}

// A directory that is given to a running store begins anew, and the one of
// before is emptied.
func TestDirectoryChanges(t *testing.T) {
	h, next := &host{T: t, dir: t.TempDir()}, &host{T: t, dir: t.TempDir()}
	next.run(func(r *rig, _ *Shelf) { r.keep(given{ticket: r.shelf.Ask("/old"), body: "old"}) })
	h.run(func(r *rig, _ *Shelf) {
		r.keep(given{body: "kept", req: fields("A: 1"), header: fields("Vary: A")})
		d, err := OpenDisk(next.dir, next.warn)
		if err != nil {
			r.Fatal(err)
		}
		r.store.UseDisk(d)
		r.want("kept", "A: 1")
	})
	if len(h.files()) != 0 || len(next.files()) != 1 {
		t.Fatalf("files %v and %v", h.files(), next.files())
	}
	next.run(func(r *rig, _ *Shelf) {
		r.want("kept", "A: 1")
		if got := r.find("/old", nil); got != "-" {
			r.Errorf("found %q", got)
		}
		r.store.UseDisk(nil)
		r.want("kept", "A: 1")
	})
	if len(next.files()) != 0 {
		t.Errorf("files %v", next.files())
	}
}

// A directory that cannot be used is refused with what to do.
func TestDirectoryRefused(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	(&host{T: t}).put(file, nil)
	if _, err := OpenDisk(filepath.Join(file, "x"), nil); err == nil || !strings.Contains(err.Error(), "name a directory") {
		t.Errorf("got %v", err)
	}
	d, err := OpenDisk(dir, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenDisk(dir, nil); err == nil || !strings.Contains(err.Error(), "in use by another sidecar") {
		t.Errorf("got %v", err)
	}
	d.Discard()
	d, err = OpenDisk(dir, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	d.Discard()
}

// Nothing that keys a copy, and no password of the upstream, is in a file.
func TestFilesHoldNoSecrets(t *testing.T) {
	h := &host{T: t, dir: t.TempDir()}
	h.run(func(r *rig, _ *Shelf) {
		r.keep(given{req: fields("Authorization: topsecret"), body: "mine", varyBy: []string{"Authorization"}})
	})
	for _, file := range h.files() {
		data, err := os.ReadFile(file)
		if err != nil || bytes.Contains(data, []byte("secret")) {
			t.Errorf("%s: %v, %q", file, err, data)
		}
		if info, _ := os.Stat(file); info.Mode().Perm() != 0o600 {
			t.Errorf("%s is %v", file, info.Mode())
		}
	}
	if len(h.files()) != 1 {
		t.Errorf("files %v", h.files())
	}
}
