package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// onDisk is a sidecar whose copies are in a directory, with one dependency a.
const onDisk = `
cache: {dir: %s%s}
defaults:
  breaker: {mode: "off"}
  timeout: 5s
  fallback: [{stale: {max_age: 10m}}]
dependencies:
  - {name: a, listen: $A, upstream: "http://$U"}
`

// copyFiles returns the files of copies in a directory, and their size.
func copyFiles(t *testing.T, dir string) (paths []string, bytes int64) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "*.copy"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		if info, err := os.Stat(path); err == nil { // it may go meanwhile
			paths, bytes = append(paths, path), bytes+info.Size()
		}
	}
	return paths, bytes
}

// awaitFiles waits until a directory holds a number of copies.
func awaitFiles(t *testing.T, dir string, n int) {
	t.Helper()
	var now int
	if !poll(patience, func() bool {
		paths, _ := copyFiles(t, dir)
		now = len(paths)
		return now == n
	}) {
		t.Fatalf("%s holds %d copies, want %d", dir, now, n)
	}
}

// warnings returns what the sidecar has said of its directory of copies.
func (s *sidecar) warnings() []string {
	var all []string
	for _, e := range s.logs("level", "warn") {
		if text := fmt.Sprint(e["msg"]); strings.Contains(text, "cache.dir") {
			all = append(all, text)
		}
	}
	return all
}

// What happened: a pod that started again during an outage had no answer to
// show, or showed one as younger than it was.
// Right: after a stop and after a crash the copies are there, byte for byte,
// and their age goes on.
func TestE6_RestartDuringTheOutage(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(x *exchange) {
		x.leaving(http.StatusOK, "body of "+x.req.URL.String(), "Age: 100", `ETag: "1"`, "X-Twice: 1", "X-Twice: 2", "Content-Type: text/x")
	})
	dir := filepath.Join(t.TempDir(), "copies")
	s := start(t, fmt.Sprintf(onDisk, dir, ""), u)
	begun := time.Now()
	for i := range 10 {
		s.get("A", fmt.Sprintf("/page?%d", i))
	}
	primed := time.Now()
	awaitFiles(t, dir, 10)
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory has the mode %v (%v), want 0700", info.Mode(), err)
	}
	all, _ := os.ReadDir(dir)
	for _, f := range all {
		if info, err := f.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has the mode %v (%v), want 0600", f.Name(), info.Mode(), err)
		}
	}
	u.refuse()
	for name, end := range map[string]func(){
		"a crash": func() { s.kill(t) },
		"a stop":  func() { s.stop(t) },
		"two":     func() { s.kill(t); s.restart(t); s.stop(t) },
	} {
		end()
		time.Sleep(1100 * time.Millisecond)
		s.restart(t)
		s.wantMetric(t, 10, "sidecar_cache_entries")
		for i := range 10 {
			path := fmt.Sprintf("/page?%d", i)
			least := 100 + int(time.Since(primed).Seconds())
			r := s.get("A", path)
			wantCopy(t, r, "body of "+path, "connect")
			age, _ := strconv.Atoi(r.header.Get("Age"))
			if most := 101 + int(time.Since(begun).Seconds()); age < least || age > most {
				t.Errorf("after %s the Age is %d, want %d to %d", name, age, least, most)
			}
			if r.header.Get("ETag") != `"1"` || len(r.header["X-Twice"]) != 2 || r.header.Get("Content-Type") != "text/x" {
				t.Errorf("after %s: %v", name, r.header)
			}
		}
		if r := s.get("A", "/never"); r.status != http.StatusBadGateway {
			t.Errorf("a target without a copy: %v", r)
		}
	}
	if all := s.warnings(); len(all) > 0 {
		t.Errorf("warnings of sound files: %q", all)
	}
}

// What happened: what a write had changed was shown as before, since the crash
// came between the write and its effect on the disk.
// Right: the file is gone before the caller sees the write's answer.
func TestE6_WriteIsOnDiskBeforeItsAnswer(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(x *exchange) {
		_, _ = x.body()
		switch {
		case x.req.Method == http.MethodGet:
			x.leaving(http.StatusOK, "old")
		case x.req.URL.Path == "/fails":
			x.leaving(http.StatusConflict, "no")
		case x.req.URL.Path == "/elsewhere":
			x.leaving(http.StatusCreated, "made", "Location: /named", "Content-Location: /also")
		default:
			x.leaving(http.StatusOK, "changed")
		}
	})
	dir := filepath.Join(t.TempDir(), "copies")
	s := start(t, fmt.Sprintf(onDisk, dir, ""), u)
	gone := []string{"/post", "/put", "/delete", "/named", "/also"}
	stay := []string{"/fails", "/other"}
	for _, path := range append(gone, stay...) {
		s.get("A", path)
	}
	awaitFiles(t, dir, len(gone)+len(stay))
	for i, w := range []struct {
		method, path string
		left         int
	}{{"POST", "/post", 6}, {"PUT", "/put", 5}, {"DELETE", "/delete", 4}, {"POST", "/elsewhere", 2}, {"POST", "/fails", 2}} {
		if r := s.do(context.Background(), w.method, "A", w.path, strings.NewReader("x")); r.err != nil || r.status == http.StatusBadGateway {
			t.Fatal(r)
		}
		s.signal(t, syscall.SIGKILL)
		if paths, _ := copyFiles(t, dir); len(paths) != w.left {
			t.Errorf("after write %d the directory holds %d copies, want %d", i+1, len(paths), w.left)
		}
		s.kill(t)
		s.restart(t)
		if i == 2 {
			continue // and a write before the files have been read
		}
		s.wantMetric(t, float64(w.left), "sidecar_cache_entries")
	}
	u.refuse()
	for _, path := range gone {
		if r := s.get("A", path); r.status != http.StatusBadGateway {
			t.Errorf("%s after it was changed: %v, want 502", path, r)
		}
	}
	for _, path := range stay {
		wantCopy(t, s.get("A", path), "old", "connect")
	}
}

// What happened: two processes wrote to one directory and spoiled each other's
// copies; a directory that could not be used was noticed after the outage.
// Right: exit code 1 with the directory's name and a remedy.
func TestE6_DirectoryOfItsOwn(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, ok)
	dir := filepath.Join(t.TempDir(), "copies")
	s := start(t, fmt.Sprintf(onDisk, dir, ""), u)
	s.get("A", "/page")
	awaitFiles(t, dir, 1)
	regular := file(t, "file", "a regular file")
	below := filepath.Join(regular, "copies")
	readOnly := t.TempDir()
	unusable := map[string]string{dir: "give each a directory of its own", below: "name a directory that this user can make"}
	if os.Geteuid() != 0 {
		if err := os.Chmod(readOnly, 0o500); err != nil {
			t.Fatal(err)
		}
		unusable[readOnly] = "name a directory that this user can write to"
	}
	for at, remedy := range unusable {
		named := at
		if at == below {
			named = regular // what stands in the way
		}
		config := fmt.Sprintf("admin: {listen: %s}\nmetrics: {listen: %s}\ncache: {dir: %s}\ndependencies:\n  - {name: a, listen: %s, upstream: http://a.test}\n",
			freeAddress(t), freeAddress(t), at, freeAddress(t))
		if r := runCommand(t, []string{"run", "-c", file(t, "second.yaml", config)}); r.code != 1 || !strings.Contains(r.err, named) || !strings.Contains(r.err, "cache.dir") || !strings.Contains(r.err, remedy) {
			t.Errorf("a second sidecar at %s: %+v, want exit code 1, the directory and %q", at, r, remedy)
		}
		p := reloadRefusal{}
		if at != dir {
			p = s.failReload(t, fmt.Sprintf(onDisk, at, ""))
			if !strings.Contains(p.Error, named) || !strings.Contains(p.Error, remedy) {
				t.Errorf("a reload to %s: %+v", at, p)
			}
		}
	}
	// Whoever was refused has left the first one's copies alone.
	awaitFiles(t, dir, 1)
	u.refuse()
	s.kill(t)
	s.write(t, fmt.Sprintf(onDisk, dir, ""))
	s.restart(t)
	s.wantMetric(t, 1, "sidecar_cache_entries")
	wantCopy(t, s.get("A", "/page"), "ok", "connect")
}
