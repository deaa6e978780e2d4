package browser

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// testTimeout bounds every wait: nothing here takes this long unless it hangs.
const testTimeout = 30 * time.Second

// settings are those of every test's sidecar.
const settings = `admin: {listen: %q}
metrics: {listen: %q}
shutdown: {drain_timeout: 1s}
log: {access: off}
defaults:
  breaker: {consecutive_failures: 3, cooldown: 1s, jitter: 0, ramp: 0s}
dependencies:
`

// sidecar is a running one, in front of one upstream.
type sidecar struct {
	t         *testing.T
	admin     string
	path      string            // of the configuration
	addresses map[string]string // of the listeners, by dependency
	sick      *atomic.Bool      // whether the upstream answers 503
	process   *exec.Cmd
	output    bytes.Buffer
}

// start runs a sidecar until the test ends. The dependencies are names, or
// names and further keys as YAML in flow style: `search, timeout: 1s`.
func start(t *testing.T, dependencies ...string) *sidecar {
	t.Helper()
	if chromium() == "" {
		t.Skip("no chromium on the PATH; install one (apt-get install chromium) to test the page")
	}
	s := &sidecar{t: t, admin: freeAddress(t), addresses: map[string]string{}, sick: new(atomic.Bool)}
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if s.sick.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = io.WriteString(w, "hello")
	}))
	t.Cleanup(upstream.Close)
	var file strings.Builder
	fmt.Fprintf(&file, settings, s.admin, freeAddress(t))
	for _, d := range dependencies {
		name, keys, found := strings.Cut(d, ", ")
		if found {
			keys = ", " + keys
		}
		s.addresses[name] = freeAddress(t)
		fmt.Fprintf(&file, "  - {name: %q, listen: %q, upstream: %q%s}\n", name, s.addresses[name], upstream.URL, keys)
	}
	s.path = filepath.Join(t.TempDir(), "sidecar.yaml")
	s.configure(file.String())
	s.run()
	t.Cleanup(func() { s.stop(syscall.SIGTERM) })
	return s
}

// given are the addresses that freeAddress has returned.
var given sync.Map

// freeAddress returns an address of the loopback interface that nobody listens
// on; never the same one twice.
func freeAddress(t *testing.T) string {
	t.Helper()
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
		if _, again := given.LoadOrStore(l.Addr().String(), true); !again {
			return l.Addr().String()
		}
	}
}

// configure writes the configuration.
func (s *sidecar) configure(text string) {
	s.t.Helper()
	if err := os.WriteFile(s.path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// run starts the process and waits until it is ready.
func (s *sidecar) run() {
	s.t.Helper()
	binary, err := shared.build()
	if err != nil {
		s.t.Fatal(err)
	}
	s.process = exec.Command(binary, "run", "-c", s.path)
	s.process.Stderr = &s.output
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.awaitReady()
}

// awaitReady waits until the process is ready.
func (s *sidecar) awaitReady() {
	s.t.Helper()
	for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		res, err := http.Get("http://" + s.admin + "/readyz")
		if err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return
			}
		}
		if time.Since(begun) > testTimeout {
			s.stop(syscall.SIGKILL)
			s.t.Fatalf("the sidecar did not get ready:\n%s", &s.output)
		}
	}
}

// stop ends the process by a signal.
func (s *sidecar) stop(signal os.Signal) {
	if s.process == nil {
		return
	}
	_ = s.process.Process.Signal(signal)
	_ = s.process.Process.Signal(syscall.SIGCONT) // A test may have failed while it stood still.
	_ = s.process.Wait()
	s.process = nil
}

// call makes a call to a dependency, as the app does.
func (s *sidecar) call(name string) {
	if res, err := http.Get("http://" + s.addresses[name] + "/x"); err == nil {
		_ = res.Body.Close()
	}
}

// fail makes calls to a dependency until its circuit is open.
func (s *sidecar) fail(name string) {
	s.t.Helper()
	s.sick.Store(true)
	defer s.sick.Store(false)
	for s.state(name).Breaker.State != "open" {
		s.call(name)
	}
}

// state is what the API says of a dependency.
type state struct {
	Breaker struct {
		State  string
		Forced bool
		Since  time.Time
	}
	Requests map[string]int
}

func (s *sidecar) state(name string) (d state) {
	s.t.Helper()
	res, err := http.Get("http://" + s.admin + "/api/dependencies/" + name)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&d); err != nil {
		s.t.Fatal(err)
	}
	return d
}
