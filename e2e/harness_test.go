package e2e

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

const (
	// patience bounds everything that a test waits for without asserting a
	// time of its own.
	patience = 10 * time.Second
	// starts is how often a start is repeated whose ports someone else took.
	starts = 5
)

// base is the policy of the field cases; a dependency's own keys go over it.
const base = `
defaults:
  breaker: {consecutive_failures: 3, min_calls: 1000000, cooldown: 1s, jitter: 0, ramp: 0s, probes: 1}
  bulkhead: {max_concurrent: 10, max_waiting: 10, queue_timeout: 500ms}
  attempt_timeout: 500ms
  timeout: 2s
`

// one is base with one dependency "a", listening at $A in front of $U.
const one = base + `
dependencies:
  - name: a
    listen: $A
    upstream: http://$U
`

// binary is the sidecar that the tests run.
var binary string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		_ = flag.Set("test.parallel", atOnce)
	}
	dir, err := os.MkdirTemp("", "sidecar-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "sidecar")
	args := slices.Concat([]string{"build", "-o", binary}, buildFlags, []string{"sidecar/cmd/sidecar"})
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go %s: %v\n%s", strings.Join(args, " "), err, out)
		return 1
	}
	stop := watchLateness()
	code := m.Run()
	stop()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// sidecar is one running process with its configuration.
type sidecar struct {
	path      string // of the configuration file
	addresses map[string]string
	upstreams []*upstream
	client    *http.Client // for ordinary calls
	scraper   *http.Client // a new connection for every question to admin and metrics
	words     []string     // before the command line that runs it
	cmd       *exec.Cmd
	output    output
	exited    chan struct{}
	err       error // of the process; set before exited is closed

	mu      sync.Mutex // guards everything below
	conns   []net.Conn // the raw callers'
	before  usage      // what the process held right after its start
	stopped bool
}

// start runs the sidecar with a configuration and returns once it is ready.
// The process section is added where the text has none. The test's end stops
// it and checks that nothing was left behind.
func start(t *testing.T, yaml string, upstreams ...*upstream) *sidecar {
	t.Helper()
	for try := range starts {
		s := launch(t, yaml, upstreams...)
		if s.awaitReady(t) {
			s.before = s.settled(t)
			t.Cleanup(func() { s.finish(t) })
			return s
		}
		if !strings.Contains(s.output.text(), "address already in use") || try == starts-1 {
			t.Fatalf("the sidecar did not start: %v\n%s", s.err, s.output.text())
		}
	}
	return nil
}

// launch starts the process without waiting for it. Whoever calls it, start
// apart, stops the process.
func launch(t *testing.T, yaml string, upstreams ...*upstream) *sidecar {
	t.Helper()
	return launchBy(t, nil, yaml, upstreams...)
}

// launchBy is launch by another command, given by the words before the
// sidecar's own.
func launchBy(t *testing.T, words []string, yaml string, upstreams ...*upstream) *sidecar {
	t.Helper()
	s := &sidecar{
		path:      filepath.Join(t.TempDir(), "sidecar.yaml"),
		words:     words,
		addresses: map[string]string{},
		upstreams: upstreams,
		client:    newClient(),
		scraper:   &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}},
	}
	for i, u := range upstreams {
		s.addresses[fmt.Sprintf("U%d", i+1)] = u.addr
	}
	if len(upstreams) > 0 {
		s.addresses["U"] = upstreams[0].addr
	}
	s.write(t, yaml)
	s.run(t)
	t.Cleanup(func() { // the last resort, where the test ended before it could be stopped
		_ = s.cmd.Process.Kill()
		<-s.exited
	})
	return s
}

var token = regexp.MustCompile(`\$[A-Z][A-Z0-9_]*`)

// write puts a configuration into the file that the sidecar reads, under the
// same addresses as before.
func (s *sidecar) write(t *testing.T, yaml string) {
	t.Helper()
	put(t, filepath.Dir(s.path), filepath.Base(s.path), []byte(s.expand(t, yaml)))
}

// expand gives a configuration its addresses and its process section.
func (s *sidecar) expand(t *testing.T, yaml string) string {
	t.Helper()
	for section, text := range map[string]string{
		"admin": "{listen: $ADMIN}", "metrics": "{listen: $METRICS}", "log": "{level: debug, format: json, access: all}",
	} {
		if !regexp.MustCompile(`(?m)^` + section + `:`).MatchString(yaml) {
			yaml = section + ": " + text + "\n" + yaml
		}
	}
	return token.ReplaceAllStringFunc(yaml, func(word string) string {
		name := word[1:]
		if s.addresses[name] == "" {
			s.addresses[name] = freeAddress(t)
		}
		return s.addresses[name]
	})
}

// The listeners' ports: below those that the system gives to outgoing
// connections, which would otherwise take one between its choice and its use.
const (
	firstPort = 10_000
	portCount = 20_000
)

// portsGiven counts on from a place of this process's own.
var portsGiven atomic.Int64

func init() { portsGiven.Store(int64(os.Getpid()) * 101) }

// freeAddress returns a loopback address that nobody listens on at present. No
// two are the same.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range portCount {
		addr := fmt.Sprintf("127.0.0.1:%d", firstPort+portsGiven.Add(1)%portCount)
		if l, err := net.Listen("tcp", addr); err == nil {
			_ = l.Close()
			return addr
		}
	}
	t.Fatal("no port is free")
	return ""
}

// awaitReady waits for /readyz; false if the process ended before.
func (s *sidecar) awaitReady(t *testing.T) bool {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		select {
		case <-s.exited:
			return false
		case <-time.After(5 * time.Millisecond):
		}
		if res, err := s.scraper.Get("http://" + s.addresses["METRICS"] + "/readyz"); err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return true
			}
		}
	}
	_ = s.cmd.Process.Kill()
	<-s.exited
	t.Fatalf("the sidecar was not ready in time:\n%s", s.output.text())
	return false
}

// signal sends the process a signal.
func (s *sidecar) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
}

// finish closes every connection from outside, waits until the sidecar holds
// no more than after its start, and stops it.
func (s *sidecar) finish(t *testing.T) {
	t.Helper()
	s.client.CloseIdleConnections()
	s.mu.Lock()
	stopped := s.stopped
	for _, c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	for _, u := range s.upstreams {
		u.close()
	}
	if !stopped {
		s.checkLeaks(t)
		s.stop(t)
	}
	if t.Failed() {
		t.Logf("the sidecar's last words:\n%s", s.output.tail(40))
	}
}

// stop ends the process by SIGTERM and wants exit code 0 and no word of a
// panic or a data race. Later calls do nothing.
func (s *sidecar) stop(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	again := s.stopped
	s.stopped = true
	s.mu.Unlock()
	if again {
		return
	}
	s.signal(t, syscall.SIGTERM)
	select {
	case <-s.exited:
	case <-time.After(2 * patience):
		_ = s.cmd.Process.Kill()
		<-s.exited
		t.Errorf("the sidecar did not end after SIGTERM")
	}
	if s.err != nil {
		t.Errorf("the sidecar ended with %v, want exit code 0", s.err)
	}
	for _, word := range []string{"panic", "DATA RACE", "fatal error"} {
		if text := s.output.text(); strings.Contains(text, word) {
			t.Errorf("the sidecar said %q:\n%s", word, text)
		}
	}
}
