//go:build unix

package e2e

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	order "encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// copyFile is the file of a copy taken apart: the form is told in the package
// stale.
type copyFile struct {
	prefix, body []byte
	about        map[string]any
}

const copyPrefix = len("sidecar copy 1\n") + 4 + 8

// readCopy takes a file apart.
func readCopy(t *testing.T, path string) copyFile {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil || len(text) < copyPrefix+sha256.Size {
		t.Fatalf("%s: %v, %d bytes", path, err, len(text))
	}
	n := copyPrefix + int(order.BigEndian.Uint32(text[copyPrefix-12:]))
	f := copyFile{prefix: text[:copyPrefix-12], body: text[n : len(text)-sha256.Size]}
	if err := json.Unmarshal(text[copyPrefix:n], &f.about); err != nil {
		t.Fatal(err)
	}
	return f
}

// signed puts a file together, signed with a directory's key.
func (f copyFile) signed(t *testing.T, dir string) []byte {
	t.Helper()
	key, err := os.ReadFile(filepath.Join(dir, "key"))
	if err != nil {
		t.Fatal(err)
	}
	about, err := json.Marshal(f.about)
	if err != nil {
		t.Fatal(err)
	}
	text := order.BigEndian.AppendUint32(bytes.Clone(f.prefix), uint32(len(about)))
	text = order.BigEndian.AppendUint64(text, uint64(len(f.body)))
	text = slices.Concat(text, about, f.body)
	mac := hmac.New(sha256.New, key)
	mac.Write(text)
	return mac.Sum(text)
}

// spoil is something that can become of a copy's file.
type spoil struct {
	name  string
	warns bool
	do    func(t *testing.T, path string, text []byte)
}

// into returns a spoil that puts other bytes in the file's place.
func into(change func(text []byte) []byte) func(*testing.T, string, []byte) {
	return func(t *testing.T, path string, text []byte) {
		t.Helper()
		if err := os.WriteFile(path, change(bytes.Clone(text)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// instead returns a spoil that puts something else than a file there.
func instead(make func(path string) error) func(*testing.T, string, []byte) {
	return func(t *testing.T, path string, _ []byte) {
		t.Helper()
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := make(path); err != nil {
			t.Fatal(err)
		}
	}
}

func flip(at func(n int) int) func([]byte) []byte {
	return func(text []byte) []byte {
		text[at(len(text))] ^= 1
		return text
	}
}

var spoils = []spoil{
	{"nothing", false, func(*testing.T, string, []byte) {}},
	{"empty", true, into(func([]byte) []byte { return nil })},
	{"a third", true, into(func(b []byte) []byte { return b[:len(b)/3] })},
	{"without its last byte", true, into(func(b []byte) []byte { return b[:len(b)-1] })},
	{"with a byte more", true, into(func(b []byte) []byte { return append(b, 0) })},
	{"twice", true, into(func(b []byte) []byte { return append(b, b...) })},
	{"zeros", true, into(func(b []byte) []byte { clear(b); return b })},
	{"a hole", true, into(func(b []byte) []byte { clear(b[len(b)/2:]); return b })},
	{"first byte", true, into(flip(func(int) int { return 0 }))},
	{"length", true, into(flip(func(int) int { return copyPrefix - 9 }))},
	{"length of the body", true, into(flip(func(int) int { return copyPrefix - 8 }))},
	{"description", true, into(flip(func(int) int { return copyPrefix + 20 }))},
	{"body", true, into(flip(func(n int) int { return n - sha256.Size - 1 }))},
	{"signature", true, into(flip(func(n int) int { return n - 1 }))},
	{"foreign", true, into(func([]byte) []byte { return bytes.Repeat([]byte("none of ours\n"), 100) })},
	{"a directory", true, instead(func(path string) error { return os.Mkdir(path, 0o700) })},
	{"a full directory", true, instead(func(path string) error { return os.MkdirAll(filepath.Join(path, "more"), 0o700) })},
	{"a pipe", true, instead(func(path string) error { return syscall.Mkfifo(path, 0o600) })},
	{"a link to itself", true, instead(func(path string) error { return os.Symlink(path, path) })},
	{"an endless link", true, instead(func(path string) error { return os.Symlink("/dev/zero", path) })},
	{"another's name", true, nil},
	{"the future", true, nil},
	{"unreadable", true, func(t *testing.T, path string, _ []byte) {
		t.Helper()
		if err := os.Chmod(path, 0); err != nil {
			t.Fatal(err)
		}
	}},
}

// What happened: a file that a crash had torn, or that was never a copy, was
// shown to callers, or kept the process from starting.
// Right: it is skipped with a warning and never shown; the process starts, and
// ends, as ever; the sound copies are there.
func TestE6_SpoiltFiles(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(x *exchange) { x.leaving(http.StatusOK, "body of "+x.req.URL.Path) })
	dir := filepath.Join(t.TempDir(), "copies")
	s := start(t, fmt.Sprintf(onDisk, dir, ""), u)
	of := func(i int) string { return fmt.Sprintf("/%d", i) }
	paths := map[string]string{} // of the files, by target
	for i := range spoils {
		s.get("A", of(i))
	}
	s.get("A", "/other")
	awaitFiles(t, dir, len(spoils)+1)
	s.kill(t)
	found, _ := copyFiles(t, dir)
	for _, path := range found {
		paths[fmt.Sprint(readCopy(t, path).about["Target"])] = path
	}
	good := 2 // the one to which nothing happens, and the other
	for i, spoil := range spoils {
		path := paths[of(i)]
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		switch spoil.name {
		case "another's name":
			other, err := os.ReadFile(paths["/other"])
			if err != nil {
				t.Fatal(err)
			}
			into(func([]byte) []byte { return other })(t, path, nil)
		case "the future":
			f := readCopy(t, path)
			f.about["Made"] = time.Now().Add(time.Hour).UTC()
			into(func([]byte) []byte { return f.signed(t, dir) })(t, path, nil)
		case "unreadable":
			spoil.do(t, path, text)
			if os.Geteuid() == 0 {
				good++ // for whom nothing is
			}
		default:
			spoil.do(t, path, text)
		}
	}
	for name, text := range map[string]string{"notes.txt": "foreign", "x.copy": "foreign", strings.Repeat("a", 64) + ".copy.new": "half a cop", ".hidden": ""} {
		put(t, dir, name, []byte(text))
	}
	u.refuse()
	s.restart(t)
	s.wantMetric(t, float64(good), "sidecar_cache_entries")
	for i, spoil := range spoils {
		r := s.get("A", of(i))
		if spoil.name == "nothing" || spoil.name == "unreadable" && os.Geteuid() == 0 {
			wantCopy(t, r, "body of "+of(i), "connect")
			continue
		}
		if r.status != http.StatusBadGateway {
			t.Errorf("a file that is or has %q: %v, want 502", spoil.name, r)
		}
	}
	wantCopy(t, s.get("A", "/other"), "body of /other", "connect")
	bad := len(spoils) + 1 - good
	var warned []string
	if !poll(2*time.Second, func() bool {
		warned = s.warnings()
		return len(warned) == 2
	}) || !strings.Contains(strings.Join(warned, "\n"), fmt.Sprintf("%d files in cache.dir", bad)) || !strings.Contains(strings.Join(warned, "\n"), "holds 3 files that are no copies of ours") {
		t.Errorf("the warnings are %q, want those of %d spoilt and 3 foreign files", warned, bad)
	}
	for _, name := range []string{"notes.txt", "x.copy", ".hidden"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Errorf("a foreign file was touched: %v", err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, strings.Repeat("a", 64)+".copy.new")); err == nil {
		t.Error("half a file of ours was left")
	}
	// Where a spoilt file stood there is room for a new one again.
	u.accept(t)
	for i := range spoils {
		if r := s.get("A", of(i)); r.body != "body of "+of(i) {
			t.Errorf("well again: %v", r)
		}
	}
	s.wantMetric(t, float64(len(spoils)+1), "sidecar_cache_entries")
}

// What happened: a key that was lost or spoilt kept the process from starting,
// or made its copies count as another's.
// Right: it starts with a new key; the old copies are skipped with a warning.
func TestE6_SpoiltKey(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, ok)
	dir := filepath.Join(t.TempDir(), "copies")
	s := start(t, fmt.Sprintf(onDisk, dir, ""), u)
	for i, key := range []string{"", "short", strings.Repeat("x", 32), strings.Repeat("x", 33)} {
		s.get("A", "/page")
		awaitFiles(t, dir, 1)
		u.refuse()
		s.kill(t)
		put(t, dir, "key", []byte(key))
		put(t, dir, "key.new", []byte("half"))
		s.restart(t)
		if !poll(2*time.Second, func() bool { return len(s.warnings()) == i+1 }) {
			t.Errorf("key %q: the warnings are %q", key, s.warnings())
		}
		if r := s.get("A", "/page"); r.status != http.StatusBadGateway {
			t.Errorf("key %q: %v, want 502", key, r)
		}
		u.accept(t)
	}
	if info, err := os.Stat(filepath.Join(dir, "key")); err != nil || info.Size() != 32 || info.Mode().Perm() != 0o600 {
		t.Errorf("the key is %v (%v)", info, err)
	}
}
