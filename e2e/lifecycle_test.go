package e2e

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
)

// health returns what the metrics listener answers on a health path; 0 without
// an answer.
func (s *sidecar) health(path string) int {
	res, err := s.scraper.Get(s.url("METRICS") + path)
	if err != nil {
		return 0
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// What happened: the app started, called, and was refused, since readiness was
// told before every listener accepted; or one sick dependency took the whole
// pod out of service.
// Right: never ready before every listener accepts; ready whatever the
// upstreams do; ready and alive with every circuit open.
func TestI4_ReadinessTellsOfListenersAlone(t *testing.T) {
	t.Parallel()
	const dependencies = 12
	yaml := strings.Builder{}
	yaml.WriteString(base + "dependencies:\n")
	for i := range dependencies {
		fmt.Fprintf(&yaml, "  - {name: d%d, listen: $P%d, upstream: \"http://%s\"}\n", i, i, refused(t))
	}
	var s *sidecar
	for range starts {
		if s = launch(t, yaml.String()); s.watchStart(t) {
			break
		}
	}
	for i := range dependencies {
		if r := s.get(fmt.Sprintf("P%d", i), "/"); r.status != http.StatusBadGateway || r.reason() != "connect" {
			t.Errorf("ready, but listener %d answers %v, want 502", i, r)
		}
	}
	s.before = s.settled(t)
	t.Cleanup(func() { s.finish(t) })
	for i := range dependencies {
		for range 2 {
			s.get(fmt.Sprintf("P%d", i), "/")
		}
		if st := s.api(t, fmt.Sprintf("d%d", i)).Breaker.State; st != "open" {
			t.Errorf("circuit %d is %s", i, st)
		}
	}
	for _, path := range []string{"/readyz", "/livez"} {
		if status := s.health(path); status != http.StatusOK {
			t.Errorf("%s with every circuit open: %d", path, status)
		}
	}
}

// watchStart asks /readyz from the first moment on and dials every listener
// after each answer, until the process is ready; false if a port was taken.
func (s *sidecar) watchStart(t *testing.T) (ready bool) {
	t.Helper()
	for !ready {
		select {
		case <-s.exited:
			if !strings.Contains(s.output.text(), "address already in use") {
				t.Fatalf("the sidecar did not start: %v\n%s", s.err, s.output.text())
			}
			return false
		default:
		}
		ready = s.health("/readyz") == http.StatusOK
		for name, address := range s.addresses {
			if ready && refusesConnections(address) {
				t.Errorf("/readyz says 200 and the listener $%s refuses", name)
			}
		}
	}
	return true
}

// What happened: a process without one of its ports ran on, half deaf.
// Right: exit code 1, and the port's owner and address on standard error.
func TestI4_OccupiedPort(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := l.Addr().String()
	for _, owner := range []string{"admin", "metrics", "dependency b"} {
		ports := map[string]string{"admin": freeAddress(t), "metrics": freeAddress(t), "dependency a": freeAddress(t), "dependency b": freeAddress(t)}
		ports[owner] = taken
		path := file(t, "taken.yaml", fmt.Sprintf("admin: {listen: %s}\nmetrics: {listen: %s}\ndependencies:\n"+
			"  - {name: a, listen: %s, upstream: http://a.test}\n  - {name: b, listen: %s, upstream: http://b.test}\n",
			ports["admin"], ports["metrics"], ports["dependency a"], ports["dependency b"]))
		if r := runCommand(t, []string{"run", "-c", path}); r.code != 1 || !strings.Contains(r.err, owner+" ") || !strings.Contains(r.err, taken) {
			t.Errorf("the port of %s is taken: %+v, want exit code 1, the owner and %s", owner, r, taken)
		}
	}
}
