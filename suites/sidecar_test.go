package suites

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var discard = log.New(io.Discard, "", 0)

// direct asks the sidecar itself: no proxy of the environment, no connection
// that outlives the request.
var direct = &http.Client{Timeout: testTimeout, Transport: &http.Transport{DisableKeepAlives: true}}

// armed are the settings under which every suite runs: all that could spoil an
// answer is on.
const armed = `
log: {level: debug, access: all}
shutdown: {drain_timeout: 5s}
defaults:
  timeout: 20s
  breaker: {window: 50, min_calls: 50, ramp: 0s}
  bulkhead: {max_concurrent: 100, max_waiting: 200, queue_timeout: 0s}
  retry: {max_retries: 2, budget: {ratio: 0.2, min_per_second: 50}}
  fallback:
    - stale: {max_age: 10m}
dependencies:
`

// dependency is one entry of the sidecar's configuration.
type dependency struct {
	name     string
	upstream string
	more     string // further keys, as YAML in flow style: "protocol: h2c, timeout: 1s"
}

// sidecar is a running one.
type sidecar struct {
	*process
	t       *testing.T
	admin   string
	ports   map[string]int // by dependency
	stopped bool
}

// startSidecar runs a binary and waits until it is ready. When the test ends
// it is stopped by SIGTERM, and must leave with exit code 0 and without having
// reported a data race.
func startSidecar(t *testing.T, binary string, dependencies ...dependency) *sidecar {
	t.Helper()
	for {
		s := &sidecar{t: t, admin: fmt.Sprintf("127.0.0.1:%d", freePort(t)), ports: map[string]int{}}
		path := filepath.Join(t.TempDir(), "sidecar.yaml")
		if err := os.WriteFile(path, s.configure(dependencies), 0o600); err != nil {
			t.Fatal(err)
		}
		s.process = startProcess(t, s.ready, binary, "run", "-c", path)
		if !s.lostPort() {
			t.Cleanup(s.stop)
			return s
		}
	}
}

// configure chooses ports and writes the configuration.
func (s *sidecar) configure(dependencies []dependency) []byte {
	var file bytes.Buffer
	fmt.Fprintf(&file, "admin: {listen: %q}\nmetrics: {listen: \"127.0.0.1:%d\"}\n%s", s.admin, freePort(s.t), armed[1:])
	for _, d := range dependencies {
		s.ports[d.name] = freePort(s.t)
		fmt.Fprintf(&file, "  - {name: %s, listen: \"127.0.0.1:%d\", upstream: %q", d.name, s.ports[d.name], d.upstream)
		if d.more != "" {
			fmt.Fprintf(&file, ", %s", d.more)
		}
		file.WriteString("}\n")
	}
	return file.Bytes()
}

// url is where an app calls a dependency.
func (s *sidecar) url(dependency string) string {
	return fmt.Sprintf("http://127.0.0.1:%d", s.ports[dependency])
}

func (s *sidecar) ready() bool {
	res, err := direct.Get("http://" + s.admin + "/readyz")
	if err != nil {
		return false
	}
	_ = res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// stop drains the sidecar and looks at how it ends. Only the first call does.
func (s *sidecar) stop() {
	if s.stopped {
		return
	}
	s.stopped = true
	if err := s.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Errorf("SIGTERM: %v", err)
	}
	select {
	case <-s.ended:
	case <-time.After(testTimeout):
		s.t.Error("the sidecar did not leave after SIGTERM")
		_ = s.Process.Kill()
		<-s.ended
	}
	if s.err != nil {
		s.t.Errorf("the sidecar: %v\n%s", s.err, s.out.tail())
	}
	for _, trouble := range []string{"WARNING: DATA RACE", "panic"} {
		if _, report, found := strings.Cut(s.out.String(), trouble); found {
			s.t.Errorf("the sidecar reported: %s%.4096s", trouble, report)
		}
	}
}

// state is what the admin API says of a dependency.
type state struct {
	Breaker struct {
		State  string `json:"state"`
		Opened int    `json:"opened_total"`
	} `json:"breaker"`
	Bulkhead struct {
		InUse   int `json:"in_use"`
		Waiting int `json:"waiting"`
	} `json:"bulkhead"`
	Requests map[string]int `json:"requests"`
}

// state asks the admin API.
func (s *sidecar) state(dependency string) (d state) {
	s.t.Helper()
	s.get("/api/dependencies/"+dependency, func(body io.Reader) error { return json.NewDecoder(body).Decode(&d) })
	return d
}

// calls returns how many calls of a dependency have ended.
func (d state) calls() (sum int) {
	for _, n := range d.Requests {
		sum += n
	}
	return sum
}

// metric returns the sum of a metric's series that carry all these labels,
// each written as in the exposition format: name="value".
func (s *sidecar) metric(name string, labels ...string) (sum float64) {
	s.t.Helper()
	s.get("/metrics", func(body io.Reader) error {
		lines := bufio.NewScanner(body)
	line:
		for lines.Scan() {
			series, value, _ := strings.Cut(lines.Text(), "} ")
			if !strings.HasPrefix(series, name+"{") {
				continue
			}
			for _, l := range labels {
				if !strings.Contains(series, l) {
					continue line
				}
			}
			var v float64
			if _, err := fmt.Sscan(value, &v); err != nil {
				return err
			}
			sum += v
		}
		return lines.Err()
	})
	return sum
}

func (s *sidecar) get(path string, read func(io.Reader) error) {
	s.t.Helper()
	res, err := direct.Get("http://" + s.admin + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: %s", path, res.Status)
	}
	if err := read(res.Body); err != nil {
		s.t.Fatalf("%s: %v", path, err)
	}
}

// atRest waits until a dependency holds nothing any more.
func (s *sidecar) atRest(dependency string) {
	s.t.Helper()
	waitFor(s.t, "bulkhead in_use of "+dependency+" to be 0", func() bool {
		d := s.state(dependency)
		return d.Bulkhead.InUse == 0 && d.Bulkhead.Waiting == 0
	})
}

// logLines returns how many lines of the log name a dependency's call.
func (s *sidecar) logLines(dependency string) (n int) {
	return strings.Count(s.out.String(), fmt.Sprintf(`"msg":"call","dependency":%q`, dependency))
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

// tail returns the end of what was written.
func (l *lockedBuffer) tail() string {
	all := l.String()
	return all[max(0, len(all)-4096):]
}
