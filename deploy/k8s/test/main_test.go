package deploy

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	// patience bounds every wait: nothing here takes this long unless it
	// hangs.
	patience = 30 * time.Second
	// root is the repository, seen from here.
	root = "../../.."
	// kubernetes is the folder of the manifests.
	kubernetes = ".."
)

// scratch is a folder that lives as long as the test binary.
var scratch string

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "sidecar-deploy-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(scratch)
	os.Exit(code)
}

// binary builds the sidecar as it is released, once.
var binary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "sidecar")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "./cmd/sidecar")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the sidecar: %w\n%s", err, out)
	}
	return path, nil
})

// sidecarBinary returns the path of the sidecar's binary.
func sidecarBinary(t *testing.T) string {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// need returns the path of a program, and skips the test on a machine without
// it.
func need(t *testing.T, program, debianPackage string) string {
	t.Helper()
	for _, name := range []string{program, "/usr/sbin/" + program} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skipf("%s is not on this machine, so this was not tested; Debian has it in the package %s", program, debianPackage)
	return ""
}

// command runs a program to its end and returns all that it said.
func command(dir, program string, args ...string) (string, error) {
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s", filepath.Base(program), strings.Join(args, " "), err, out)
	}
	return string(out), err
}

// mustCommand is command for what must not fail.
func mustCommand(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	out, err := command(dir, program, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// write puts a file into a folder and returns its path.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// read returns a file of the repository.
func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// eventually polls until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for %s", patience, what)
		}
	}
}

// process is a running program. The test's end stops it.
type process struct {
	cmd   *exec.Cmd
	out   lockedBuffer
	ended chan struct{}
	err   error // set before ended is closed
}

// run starts a program.
func run(t *testing.T, stop os.Signal, program string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(program, args...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() { p.stop(t, stop) })
	return p
}

// stop ends the program and wants exit code 0.
func (p *process) stop(t *testing.T, signal os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Error(err)
	}
	select {
	case <-p.ended:
	case <-time.After(patience):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
	if p.err != nil {
		t.Errorf("%s ended with %v:\n%s", p.cmd.Path, p.err, p.out.String())
	}
}

// lockedBuffer is a bytes.Buffer that is safe for concurrent use.
type lockedBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
