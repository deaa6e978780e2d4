package config

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A file's folder, that of each link to it, and that in which it really is.
func TestFoldersOf(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, folder := range []string{"mount/..1", "real"} {
		if err := os.MkdirAll(in(folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{
		"mount/..data": "..1", "mount/sidecar.yaml": "..data/sidecar.yaml", // a ConfigMap
		"current": in("mount"), "real/loop": "loop",
	} {
		if err := os.Symlink(target, in(link)); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string][]string{
		"real/sidecar.yaml":    {"real"},
		"mount/sidecar.yaml":   {"mount", "mount/..1"},
		"current/sidecar.yaml": {"", "current", "mount", "mount/..1"},
		"gone/sidecar.yaml":    {"gone"},
	} {
		got := foldersOf(in(path))
		slices.Sort(got)
		got = slices.Compact(got)
		for i, folder := range want {
			want[i] = in(folder)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
	if n := len(foldersOf(in("real/loop"))); n > mostLinks+1 {
		t.Errorf("a link to itself is followed %d times", n)
	}
}

func TestMountPoints(t *testing.T) {
	const mounts = `22 1 0:21 / /proc rw,nosuid - proc proc rw
45 22 254:1 /k/volume-subpaths/c /etc/side\040car/sidecar.yaml ro,relatime - ext4 /dev/root rw
`
	for path, want := range map[string]bool{"/proc": true, "/etc/side car/sidecar.yaml": true, "/etc/side car": false, `/etc/side\040car/sidecar.yaml`: false} {
		if got := isMountPoint(path, mounts); got != want {
			t.Errorf("%s is a mount point: %v, want %v", path, got, want)
		}
	}
	if mountedAlone(filepath.Join(t.TempDir(), "none")) {
		t.Error("a file that is not there is a mount point")
	}
	if _, err := os.Stat("/proc/self/mountinfo"); err == nil && !mountedAlone("/proc") {
		t.Error("/proc is no mount point")
	}
}

func TestCompare(t *testing.T) {
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca.pem")
	file := func(text string) *Config {
		t.Helper()
		c, err := Parse(filepath.Join(dir, "x.yaml"), []byte(text), Process{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	dependency := func(name, more string) string {
		return "  - {name: " + name + ", listen: \"127.0.0.1:700" + strconv.Itoa(len(name)) + "\", upstream: \"https://up.test\"" + more + "}\n"
	}
	if err := os.WriteFile(ca, []byte("one"), 0o600); err != nil {
		t.Fatal(err)
	}
	trusting := dependency("aaa", ", tls: {ca_file: ca.pem}")
	last := file("dependencies:\n" + trusting + dependency("b", "") + dependency("cc", ""))
	if got := Compare(last, file("dependencies:\n"+dependency("cc", "")+trusting+dependency("b", ", timeout: 10s"))); !cmp.Equal(got, Changes{}) {
		t.Errorf("the same in another order, and with a default written out: %+v", got)
	}
	if err := os.WriteFile(ca, []byte("two"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := Compare(last, file("log: {level: debug}\ncache: {max_bytes: 1MiB, max_object_bytes: 1MiB}\ndependencies:\n"+trusting+dependency("b", ", timeout: 3s")+dependency("DDDD", "")))
	want := Changes{Added: []string{"DDDD"}, Removed: []string{"cc"}, Changed: []string{"aaa", "b"}, Settings: []string{"log.level", "cache.max_bytes"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
