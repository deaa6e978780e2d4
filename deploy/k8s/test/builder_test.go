package deploy

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// basesVariable names the environment variable that says whether the base
// images come from their registries.
const basesVariable = "IMAGE_TEST_BASES"

// builder builds images in a store of its own.
type builder struct {
	dir, program, tag string
	standIns          bool // made here, since no registry is asked
}

// newBuilder returns a builder whose store ends with the test.
func newBuilder(t *testing.T) *builder {
	t.Helper()
	b := &builder{dir: t.TempDir(), program: need(t, "buildah", "buildah"), tag: "localhost/sidecar:test"}
	b.standIns = os.Getenv(basesVariable) != "registry"
	write(t, b.dir, "storage.conf", fmt.Sprintf("[storage]\ndriver = \"overlay\"\nrunroot = \"%[1]s/run\"\ngraphroot = \"%[1]s/graph\"\n", b.dir))
	if out, err := b.command(b.program, "info"); err != nil {
		t.Skipf("buildah cannot work here, so the image was not built: %v %s", err, out)
	}
	t.Cleanup(func() { b.buildah(t, "rmi", "--all", "--force") })
	return b
}

// command runs a program on the builder's store.
func (b *builder) command(program string, args ...string) (string, error) {
	cmd := exec.Command(program, args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CONTAINERS_STORAGE_CONF="+filepath.Join(b.dir, "storage.conf"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s", filepath.Base(program), strings.Join(args, " "), err, out)
	}
	return string(out), err
}

func (b *builder) buildah(t *testing.T, args ...string) {
	t.Helper()
	if _, err := b.command(b.program, args...); err != nil {
		t.Fatal(err)
	}
}

// build builds the Dockerfile, unchanged. The modules and what was compiled of
// them are the machine's own.
func (b *builder) build(t *testing.T) {
	t.Helper()
	args := []string{"bud", "--isolation", "chroot", "--network", "host", "--format", "docker", "--timestamp", "0", "--tag", b.tag}
	if b.standIns {
		t.Logf("the base images are stand-ins made here; %s=registry takes the real ones", basesVariable)
		b.makeStandIns(t)
		mustCommand(t, root, "go", "mod", "download")
		args = append(args, "--pull-never",
			"--volume", goEnv(t, "GOROOT")+":/usr/local/go:ro",
			"--volume", goEnv(t, "GOMODCACHE")+":/go/pkg/mod:rw",
			"--volume", goEnv(t, "GOCACHE")+":/root/.cache/go-build:rw")
	}
	b.buildah(t, append(args, ".")...)
}

// standInShare is what the real base image has more than its stand-in.
func (b *builder) standInShare() int {
	if b.standIns {
		return baseShare
	}
	return 0
}

// makeStandIns gives the base images' names to images made of what is on this
// machine: a shell and this Go installation (mounted, when something runs), and
// the few files that a static binary may want.
func (b *builder) makeStandIns(t *testing.T) {
	t.Helper()
	shell := filepath.Join(b.dir, "go")
	program, err := os.ReadFile(need(t, "busybox", "busybox-static"))
	if err != nil {
		t.Fatal(err)
	}
	if file, err := elf.NewFile(bytes.NewReader(program)); err != nil || slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		t.Skip("busybox is not static here, so the image was not built; Debian has a static one in the package busybox-static")
	}
	write(t, shell, "bin/sh", string(program))
	write(t, shell, "tmp/keep", "")
	write(t, shell, "etc/passwd", "root:x:0:0:root:/root:/bin/sh\n")
	if err := os.Chmod(filepath.Join(shell, "bin/sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	b.standIn(t, "GO", shell, "ENV PATH=/usr/local/go/bin:/bin GOPATH=/go")
	static := filepath.Join(b.dir, "static")
	write(t, static, "etc/passwd", "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n")
	write(t, static, "etc/group", "root:x:0:\nnonroot:x:65532:\n")
	if authorities, err := os.ReadFile("/etc/ssl/certs/ca-certificates.crt"); err == nil {
		write(t, static, "etc/ssl/certs/ca-certificates.crt", string(authorities))
	}
	b.standIn(t, "BASE", static, "USER 65532")
}

// standIn makes an image of a folder under the name that an ARG of the
// Dockerfile gives.
func (b *builder) standIn(t *testing.T, arg, folder, more string) {
	t.Helper()
	_, name, found := strings.Cut(read(t, filepath.Join(root, "Dockerfile")), "ARG "+arg+"=")
	if !found {
		t.Fatalf("the Dockerfile has no ARG %s", arg)
	}
	name, _, _ = strings.Cut(name, "\n")
	if !strings.Contains(name, ".") {
		name = "docker.io/library/" + name
	}
	file := write(t, b.dir, arg+".Dockerfile", "FROM scratch\nCOPY . /\n"+more+"\n")
	b.buildah(t, "bud", "--isolation", "chroot", "--pull-never", "--file", file, "--tag", name, folder)
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	cmd := exec.Command("go", "env", name)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
