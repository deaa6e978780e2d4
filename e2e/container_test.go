package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// awaitStart waits for a sidecar that launchBy began, and has it stopped at the
// test's end.
func (s *sidecar) awaitStart(t *testing.T) {
	t.Helper()
	if !s.awaitReady(t) {
		t.Fatalf("the sidecar did not start: %v\n%s", s.err, s.output.text())
	}
	s.before = s.settled(t)
	t.Cleanup(func() { s.finish(t) })
}

// needs skips a test that only root with these commands can do.
func needs(t *testing.T, commands ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can do this")
	}
	for _, name := range commands {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(err)
		}
	}
}

// TestContainer_ReadOnlyAndNobody: it runs on a root filesystem that nobody can
// write to, as a user who has no name, and reloads and drains there as elsewhere.
func TestContainer_ReadOnlyAndNobody(t *testing.T) {
	t.Parallel()
	needs(t, "unshare", "setpriv", "mount")
	const nobody = "54321"
	const readOnly = `mount --make-rprivate / && mount -o remount,bind,ro / && ! touch "$0" 2>/dev/null && exec setpriv --reuid ` + nobody + ` --regid ` + nobody + ` --clear-groups "$@"`
	mark := filepath.Join(t.TempDir(), "mark")
	if err := exec.Command("unshare", "-m", "sh", "-c", readOnly, mark, "true").Run(); err != nil {
		t.Skipf("no read-only root filesystem can be had here: %v", err)
	}
	if err := os.Chmod(filepath.Dir(binary), 0o755); err != nil {
		t.Fatal(err)
	}
	u := newUpstream(t, ok)
	open := func(path string) { // to be read by anyone
		for ; path != os.TempDir() && path != "/"; path = filepath.Dir(path) {
			if err := os.Chmod(path, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := launchBy(t, []string{"unshare", "-m", "sh", "-c", readOnly, mark, "sh", "-c", `until test -r "$4"; do sleep 0.01; done; exec "$@"`, "sh"}, numbered(1), u)
	open(s.path)
	s.awaitStart(t)
	if status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid)); err != nil || !strings.Contains(string(status), "\nUid:\t"+nobody+"\t") {
		t.Errorf("the sidecar runs as somebody else: %v\n%s", err, status)
	}
	if r := s.get("A", "/"); r.status != http.StatusOK {
		t.Error(r)
	}
	text := s.expand(t, numbered(2))
	overwrite(t, s.path, text)
	s.awaitLive(t, "a changed file", showsNumber(2))
}

// cgroup makes a memory cgroup with a limit in bytes, in whichever version
// there is, and returns the file that takes the numbers of its processes.
func cgroup(t *testing.T, limit int) string {
	t.Helper()
	for _, version := range []struct{ mount, file string }{
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}, {"/sys/fs/cgroup", "memory.max"},
	} {
		dir := filepath.Join(version.mount, fmt.Sprintf("sidecar-test-%d-%d", os.Getpid(), portsGiven.Add(1)))
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		file, err := os.OpenFile(filepath.Join(dir, version.file), os.O_WRONLY, 0) // the kernel made it
		if err != nil {
			_ = os.Remove(dir)
			continue
		}
		t.Cleanup(func() { poll(patience, func() bool { return os.Remove(dir) == nil }) }) // once its process is gone
		_, err = file.WriteString(strconv.Itoa(limit))
		if file.Close(); err == nil {
			return filepath.Join(dir, "cgroup.procs")
		}
	}
	t.Skip("no memory cgroup can be made here")
	return ""
}

// TestContainer_MemoryLimit: Go's memory limit follows the container's, unless
// GOMEMLIMIT says otherwise; the log tells which it is.
func TestContainer_MemoryLimit(t *testing.T) {
	t.Parallel()
	needs(t, "sh")
	const (
		mib       = 1 << 20
		container = 256 * mib
	)
	for given, want := range map[string]float64{"": container * 8 / 10, "100MiB": 100 * mib} {
		procs := cgroup(t, container)
		words := []string{"sh", "-c", `echo $$ > "$0" && exec "$@"`, procs}
		from := "cgroup"
		if given != "" {
			words = append(words, "env", "GOMEMLIMIT="+given)
			from = "GOMEMLIMIT"
		}
		s := launchBy(t, words, one, newUpstream(t, ok))
		s.awaitStart(t)
		if got := s.metrics(t).sum(t, "go_gc_gomemlimit_bytes"); got < want-1 || got > want+1 {
			t.Errorf("with GOMEMLIMIT=%q Go's limit is %v, want %v", given, got, want)
		}
		if n := len(s.logs("msg", "memory limit", "from", from)); n != 1 {
			t.Errorf("with GOMEMLIMIT=%q the log says %v", given, s.logs("msg", "memory limit"))
		}
	}
}

// TestWatch_WithoutNotices: where the system gives no notices of changed files
// (its instances are used up), they are looked at every 2 s, and the log says so
// once.
func TestWatch_WithoutNotices(t *testing.T) {
	t.Parallel()
	needs(t, "unshare")
	words := []string{"unshare", "-Ur", "sh", "-c", `echo 0 > /proc/sys/user/max_inotify_instances && exec "$@"`, "sh"}
	if err := exec.Command(words[0], append(words[1:], "true")...).Run(); err != nil {
		t.Skipf("the notices cannot be switched off here: %v", err)
	}
	s := launchBy(t, words, numbered(1), newUpstream(t, ok))
	s.awaitStart(t)
	volume := &configMap{dir: filepath.Dir(s.path)}
	for n, change := range []func(string){
		func(text string) { overwrite(t, s.path, text) },
		func(text string) { rename(t, s.path, text) },
		func(text string) { anew(t, s.path, text) },
		func(text string) { volume.swap(t, map[string]string{"sidecar.yaml": text}) },
		func(text string) { volume.swap(t, map[string]string{"sidecar.yaml": text}) },
	} {
		change(s.expand(t, numbered(n+2)))
		s.awaitLive(t, fmt.Sprint("change ", n+1), showsNumber(n+2))
	}
	warnings := 0
	for _, line := range s.logs("level", "warn") {
		if strings.Contains(fmt.Sprint(line["msg"]), "no notices of changed files") {
			warnings++
		}
	}
	if warnings != 1 {
		t.Errorf("the lack of notices was logged %d times, want once", warnings)
	}
}

// TestWatch_MountedAlone: a file that is a mount of its own, as with subPath,
// does not change with what replaces it outside. The log says so at the start.
func TestWatch_MountedAlone(t *testing.T) {
	t.Parallel()
	needs(t, "unshare", "mount")
	const mounted = `for f; do :; done; mount --make-rprivate / && mount --bind "$f" "$f" && exec "$@"`
	words := []string{"unshare", "-m", "sh", "-c", mounted, "sh"}
	if err := exec.Command(words[0], append(words[1:], "true", file(t, "x", ""))...).Run(); err != nil {
		t.Skipf("no file can be mounted here: %v", err)
	}
	s := launchBy(t, words, numbered(1), newUpstream(t, ok))
	s.awaitStart(t)
	if !poll(patience, func() bool {
		for _, line := range s.logs("level", "warn") {
			if text := fmt.Sprint(line["msg"]); strings.Contains(text, "subPath") && strings.Contains(text, s.path) {
				return true
			}
		}
		return false
	}) {
		t.Errorf("the log does not warn:\n%s", s.output.text())
	}
	overwrite(t, s.path, s.expand(t, numbered(2))) // in place it is the same file
	s.awaitLive(t, "written in place", showsNumber(2))
}
