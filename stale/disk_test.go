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

// Files that cannot be trusted are never shown.
func TestBadFiles(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(h *host, file string, data []byte)
		warns string
		left  int // files that are not removed
	}{
		{"cut", func(h *host, file string, data []byte) { h.put(file, data[:len(data)-1]) }, "torn or altered", 0},
		{"cut in the middle", func(h *host, file string, data []byte) { h.put(file, data[:len(data)/2]) }, "torn or altered", 0},
		{"empty", func(h *host, file string, _ []byte) { h.put(file, nil) }, "torn or altered", 0},
		{"longer", func(h *host, file string, data []byte) { h.put(file, append(data, 0)) }, "torn or altered", 0},
		{"altered", func(h *host, file string, data []byte) {
			h.put(file, bytes.Replace(data, []byte("body"), []byte("evil"), 1))
		}, "torn or altered", 0},
		{"other key", func(h *host, _ string, _ []byte) { h.put(filepath.Join(h.dir, "key"), make([]byte, 32)) }, "torn or altered", 0},
		{"torn key", func(h *host, _ string, _ []byte) { h.put(filepath.Join(h.dir, "key"), []byte("x")) }, "torn or altered", 0},
		{"another's name", func(h *host, file string, data []byte) {
			h.put(filepath.Join(h.dir, strings.Repeat("0", 64)+".copy"), data)
			_ = os.Remove(file)
		}, "under the name of another copy", 0},
		{"a directory", func(h *host, file string, _ []byte) {
			_ = os.Remove(file)
			_ = os.MkdirAll(filepath.Join(file, "x"), 0o700)
		}, "not a regular file", 1},
		{"foreign", func(h *host, file string, _ []byte) {
			_ = os.Rename(file, filepath.Join(h.dir, "notes.copy"))
		}, "1 files that are no copies of ours", 1},
		{"half written", func(h *host, file string, data []byte) {
			_ = os.Rename(file, file+".new")
		}, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := &host{T: t, dir: t.TempDir()}
			h.run(func(r *rig, _ *Shelf) { r.keep(given{body: "body"}) })
			if len(h.files()) != 1 || len(h.warnings) != 0 {
				t.Fatalf("files %v, warnings %v", h.files(), h.warnings)
			}
			data, err := os.ReadFile(h.files()[0])
			if err != nil {
				t.Fatal(err)
			}
			c.spoil(h, h.files()[0], data)
			h.run(func(r *rig, _ *Shelf) { r.want("-") })
			if got := strings.Join(h.warnings, "\n"); (c.warns == "") != (got == "") || !strings.Contains(got, c.warns) {
				t.Errorf("warned of %q, want %q", got, c.warns)
			}
			if n := len(h.files()); n != c.left {
				t.Errorf("%d files are left, want %d", n, c.left)
			}
		})
	}
}

func (h *host) put(file string, data []byte) {
	h.Helper()
	if err := os.WriteFile(file, data, 0o600); err != nil {
		h.Fatal(err)
	}
}

// The age of a copy from the future cannot be told.
func TestFileFromTheFuture(t *testing.T) {
	h := &host{T: t, dir: t.TempDir()}
	h.run(func(r *rig, _ *Shelf) {
		time.Sleep(time.Minute)
		r.keep(given{body: "within a minute"})
		time.Sleep(time.Nanosecond)
		r.keep(given{ticket: r.shelf.Ask("/later"), body: "later"})
	})
	h.run(func(r *rig, _ *Shelf) {
		r.want("within a minute")
		if got := r.find("/later", nil); got != "-" {
			r.Errorf("found %q", got)
		}
	})
	if got := strings.Join(h.warnings, "\n"); !strings.Contains(got, "1 files") || !strings.Contains(got, "set the clock right") {
		t.Errorf("warned of %q", got)
	}
}

// A newer copy that came before the file was read stays.
func TestNewerThanItsFile(t *testing.T) {
	h := &host{T: t, dir: t.TempDir()}
	h.run(func(r *rig, _ *Shelf) { r.keep(given{body: "old"}) })
	h.unread = true
	h.run(func(r *rig, _ *Shelf) {
		time.Sleep(time.Second)
		r.keep(given{body: "new"})
		r.store.ReadDisk()
		synctest.Wait()
		r.want("new")
	})
	h.run(func(r *rig, _ *Shelf) {
		r.want("-")
		r.store.ReadDisk()
		synctest.Wait()
		r.want("new")
	})
}

// What is no longer wanted does not come back: copies of another upstream, of
// a dependency without a stale fallback, and of a target changed since the
// start, whether its file was read by then or not.
func TestUnwantedFiles(t *testing.T) {
	keep := func(h *host) {
		h.run(func(r *rig, _ *Shelf) {
			r.keep(given{body: "a", req: fields("A: 1"), header: fields("Vary: A")})
			r.keep(given{body: "b", req: fields("A: 2"), header: fields("Vary: A")})
		})
	}
	for name, start := range map[string]func(r *rig){
		"other upstream": func(r *rig) { r.shelf = r.store.Shelf("payments", "http://new.internal"); r.shelf.Want(true) },
		"not wanted":     func(r *rig) { r.shelf = r.store.Shelf("payments", "u") },
		"dropped": func(r *rig) {
			r.shelf = r.store.Shelf("payments", "http://user:secret@upstream.internal")
			r.shelf.Want(true)
			r.shelf.Drop("/x")
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := &host{T: t, dir: t.TempDir()}
			keep(h)
			if len(h.files()) != 2 {
				t.Fatalf("files %v", h.files())
			}
			synctest.Test(t, func(t *testing.T) {
				d, err := OpenDisk(h.dir, h.warn)
				if err != nil {
					t.Fatal(err)
				}
				r := &rig{T: t, store: NewStore(1<<20, 64<<10)}
				r.store.UseDisk(d)
				start(r)
				if n := len(h.files()); name == "dropped" && n != 0 {
					t.Errorf("%d files are left once the drop is done", n)
				}
				r.store.ReadDisk()
				synctest.Wait()
				r.want("-", "A: 1")
				r.store.Close()
			})
			if len(h.files()) != 0 || len(h.warnings) != 0 {
				t.Errorf("files %v, warnings %v", h.files(), h.warnings)
			}
		})
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
