package stale

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

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
