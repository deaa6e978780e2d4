package suites

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// testTimeout bounds every wait of the suites: nothing here takes this long
// unless it hangs.
const testTimeout = time.Minute

// The programs that the suites run, each built once.
const (
	sidecarProgram    = "sidecar/cmd/sidecar"
	h2specProgram     = "github.com/summerwind/h2spec/cmd/h2spec"
	grpcClientProgram = "google.golang.org/grpc/interop/client"
)

var programs struct {
	folder string
	mu     sync.Mutex // guards built, and lets one build run at a time
	built  map[string]string
}

func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "sidecar-suites-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	programs.folder, programs.built = folder, map[string]string{}
	code := m.Run()
	_ = os.RemoveAll(folder)
	os.Exit(code)
}

// program builds a command of this module's tools and returns its path.
func program(t *testing.T, pkg string) string { return build(t, ".", pkg) }

// sidecarBinary builds the sidecar as it is released.
func sidecarBinary(t *testing.T) string { return build(t, "..", sidecarProgram) }

// sidecarRaceBinary builds the sidecar with the race detector.
func sidecarRaceBinary(t *testing.T) string { return build(t, "..", sidecarProgram, "-race") }

// build builds a package in the module of a folder, the first time it is asked
// for.
func build(t *testing.T, module, pkg string, flags ...string) string {
	t.Helper()
	programs.mu.Lock()
	defer programs.mu.Unlock()
	key := fmt.Sprint(pkg, flags)
	if path, ok := programs.built[key]; ok {
		return path
	}
	path := filepath.Join(programs.folder, fmt.Sprintf("%s-%d", filepath.Base(pkg), len(programs.built)))
	cmd := exec.Command("go", append(append([]string{"build", "-o", path}, flags...), pkg)...)
	cmd.Dir = module
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build %v %s: %v\n%s", flags, pkg, err, out)
	}
	programs.built[key] = path
	return path
}

var ports struct {
	mu   sync.Mutex // guards next
	next int
}

// freePort returns a port of the loopback interface that nobody listens on. It
// lies below the range from which systems number outgoing connections, and is
// given out once.
func freePort(t *testing.T) int {
	t.Helper()
	ports.mu.Lock()
	defer ports.mu.Unlock()
	const first, last = 20000, 30000
	if ports.next == 0 {
		ports.next = first + os.Getpid()*37%(last-first)
	}
	for range last - first {
		ports.next++
		if ports.next >= last {
			ports.next = first
		}
		// A tool may listen on every interface, so that is what is tried.
		l, err := net.Listen("tcp", fmt.Sprintf(":%d", ports.next))
		if err == nil {
			_ = l.Close()
			return ports.next
		}
	}
	t.Fatal("no free port")
	return 0
}

// serve runs a server on a port of its own, speaking HTTP/1.1 and h2c, until
// the test ends.
func serve(t *testing.T, h http.Handler) (port int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h, Protocols: new(http.Protocols), ReadHeaderTimeout: testTimeout, ErrorLog: discard}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		_ = s.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("server: %v", err)
		}
	})
	return l.Addr().(*net.TCPAddr).Port
}

// process is a running program.
type process struct {
	*exec.Cmd
	out   *lockedBuffer // all that it prints
	ended chan struct{} // closed when it has ended, with err
	err   error
}

// startProcess starts a program and waits until it is ready, or has ended.
func startProcess(t *testing.T, ready func() bool, path string, args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(path, args...), out: new(lockedBuffer), ended: make(chan struct{})}
	p.Stdout, p.Stderr = p.out, p.out
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.Wait()
		close(p.ended)
	}()
	waitFor(t, filepath.Base(path)+" to be ready", func() bool { return p.hasEnded() || ready() })
	return p
}

func (p *process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// lostPort reports whether a process ended since somebody else took its port
// between the look at it and its use.
func (p *process) lostPort() bool {
	return p.hasEnded() && strings.Contains(p.out.String(), "address already in use")
}

// waitFor polls until a condition holds.
func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
