package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// pod is a sidecar and an app as the kubelet runs them: both are processes,
// the configuration is a ConfigMap's volume, and the startup probe is the
// binary's own health check.
type pod struct {
	*sidecar
	volume     string // the mounted directory
	generation int    // of its content
	variables  []string
	app        *exec.Cmd
	said       output
	appExited  chan struct{}
	appErr     error // of the app; set before appExited is closed
}

// newPod makes a pod of which nothing runs yet.
func newPod(t *testing.T, yaml string, u *upstream) *pod {
	t.Helper()
	p := &pod{volume: t.TempDir(), appExited: make(chan struct{})}
	p.sidecar = &sidecar{
		path:      filepath.Join(t.TempDir(), "sidecar.yaml"),
		addresses: map[string]string{"U": u.addr, "METRICS": freeAddress(t)},
		upstreams: []*upstream{u},
		client:    newClient(),
		scraper:   &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}},
		exited:    make(chan struct{}),
	}
	t.Cleanup(func() { p.end(t) })
	p.publish(t, yaml)
	p.variables = []string{
		"SIDECAR_CONFIG=" + filepath.Join(p.volume, "sidecar.yaml"),
		"SIDECAR_METRICS_LISTEN=" + p.addresses["METRICS"],
	}
	return p
}

// end stops what still runs. The sidecar must leave with exit code 0.
func (p *pod) end(t *testing.T) {
	if p.app != nil {
		_ = p.app.Process.Kill()
		<-p.appExited
	}
	if p.cmd != nil {
		p.stop(t)
	}
	p.client.CloseIdleConnections()
	if t.Failed() {
		t.Logf("the sidecar's last words:\n%s", p.output.tail(40))
	}
}

// publish gives the volume its content as the kubelet does: a new folder, to
// which the link ..data is swapped in one step; the file is a link through it.
func (p *pod) publish(t *testing.T, yaml string) {
	t.Helper()
	p.write(t, yaml)
	text, err := os.ReadFile(p.path)
	if err != nil {
		t.Fatal(err)
	}
	p.generation++
	folder := fmt.Sprintf("..%d", p.generation)
	data := filepath.Join(p.volume, "..data")
	for _, step := range []error{
		os.Mkdir(filepath.Join(p.volume, folder), 0o755),
		os.WriteFile(filepath.Join(p.volume, folder, "sidecar.yaml"), text, 0o600),
		os.Symlink(folder, data+"_tmp"),
		os.Rename(data+"_tmp", data),
	} {
		if step != nil {
			t.Fatal(step)
		}
	}
	if p.generation == 1 {
		err = os.Symlink(filepath.Join("..data", "sidecar.yaml"), filepath.Join(p.volume, "sidecar.yaml"))
	} else {
		err = os.RemoveAll(filepath.Join(p.volume, fmt.Sprintf("..%d", p.generation-1)))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// change publishes a configuration and waits until the sidecar has noticed,
// with the wanted result: success or failure.
func (p *pod) change(t *testing.T, yaml, result string) {
	t.Helper()
	reloads := func() float64 { return p.metrics(t).sum(t, "sidecar_config_reloads_total", "result", result) }
	before := reloads()
	p.publish(t, yaml)
	if !poll(patience, func() bool { return reloads() > before }) {
		t.Fatalf("the changed ConfigMap was not noticed as %s:\n%s", result, p.output.tail(10))
	}
}

// probe is the startup probe: the exit code of the health check.
func (p *pod) probe(t *testing.T) int {
	t.Helper()
	return runCommand(t, []string{"healthcheck"}, p.variables...).code
}

// startSidecar starts the first container and probes it until it is ready.
func (p *pod) startSidecar(t *testing.T) {
	t.Helper()
	if code := p.probe(t); code != 1 {
		t.Errorf("the startup probe exits with %d before anything runs, want 1", code)
	}
	cmd := exec.Command(binary)
	cmd.Env = append(environment(), p.variables...)
	cmd.Stderr = &p.output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.cmd = cmd
	go func() {
		p.err = cmd.Wait()
		close(p.exited)
	}()
	if !poll(patience, func() bool { return p.probe(t) == 0 }) {
		t.Fatalf("the startup probe never succeeded:\n%s", p.output.tail(10))
	}
}

// startApp starts the second container, which calls a dependency at once.
func (p *pod) startApp(t *testing.T, port string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	app := exec.Command(self)
	app.Env = append(environment(), appVariable+"="+p.url(port))
	app.Stdout, app.Stderr = &p.said, &p.said
	if err := app.Start(); err != nil {
		t.Fatal(err)
	}
	p.app = app
	go func() {
		p.appErr = app.Wait()
		close(p.appExited)
	}()
	p.awaitCalls(t, 1)
}

// calls returns what the app has told of its calls.
func (p *pod) calls(t *testing.T) (all []appCall) {
	t.Helper()
	for line := range strings.Lines(p.said.text()) {
		if !strings.HasSuffix(line, "\n") {
			break // the app is about to write the rest
		}
		var c appCall
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatalf("the app says %q: %v", line, err)
		}
		all = append(all, c)
	}
	return all
}

// awaitCalls waits until the app has made n more calls.
func (p *pod) awaitCalls(t *testing.T, n int) {
	t.Helper()
	before := len(p.calls(t))
	if !poll(patience, func() bool { return len(p.calls(t)) >= before+n }) {
		t.Fatalf("the app made no call:\n%s", p.said.text())
	}
}

// awaitApp waits for the app's own end after SIGTERM.
func (p *pod) awaitApp(t *testing.T) {
	t.Helper()
	select {
	case <-p.appExited:
	case <-time.After(patience):
		t.Fatalf("the app did not end:\n%s", p.said.text())
	}
	if p.appErr != nil {
		t.Errorf("the app ended with %v", p.appErr)
	}
}

// wantAnswered wants every call of the app answered by the upstream itself,
// those that it made after SIGTERM among them.
func (p *pod) wantAnswered(t *testing.T) {
	t.Helper()
	paths := map[string]int{}
	for _, c := range p.calls(t) {
		paths[c.Path]++
		if c.Status != http.StatusOK || c.Error != "" {
			t.Errorf("the app's call: %+v", c)
		}
	}
	if paths["/first"] != 1 || paths["/steady"] == 0 || paths["/slow"] != 1 || paths["/last"] != lastCalls || paths["/farewell"] != 1 {
		t.Errorf("the app made the calls %v", paths)
	}
	total := 0
	for _, n := range paths {
		total += n
	}
	if n := p.upstreams[0].requests(); n != total {
		t.Errorf("the app made %d calls, the upstream saw %d", total, n)
	}
}

const podConfig = base + `
dependencies:
  - {name: a, listen: $A, upstream: "http://$U", timeout: 5s, attempt_timeout: 5s}
`

// podUpstream answers at once, and /slow after half a second.
func podUpstream(t *testing.T) *upstream {
	t.Helper()
	return newUpstream(t, func(x *exchange) {
		if x.req.URL.Path != "/slow" || x.delay(500*time.Millisecond) {
			x.respond(http.StatusOK, "ok")
		}
	})
}

// TestPod_Life: the native order. The sidecar starts, its probe lets the app
// start, whose first call is answered. ConfigMaps come and go, a faulty one too,
// and no call fails. The app drains with the sidecar behind it; the sidecar is
// told to end when the app has gone, and leaves at once.
func TestPod_Life(t *testing.T) {
	t.Parallel()
	p := newPod(t, podConfig, podUpstream(t))
	p.startSidecar(t)
	p.startApp(t, "A")
	p.awaitCalls(t, 10)
	p.change(t, podConfig+"  - {name: b, listen: $B, upstream: \"http://$U\"}\n", "success")
	if st := p.api(t, "b").Breaker.State; st != "closed" {
		t.Errorf("the dependency of the new ConfigMap is %q", st)
	}
	p.awaitCalls(t, 10)
	p.change(t, podConfig+"retries: 3\n", "failure")
	p.wantMetric(t, 0, "sidecar_config_last_reload_successful")
	p.awaitCalls(t, 10)
	p.change(t, podConfig, "success")
	p.wantMetric(t, 1, "sidecar_config_last_reload_successful")
	p.awaitCalls(t, 10)
	if err := p.app.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.awaitApp(t)
	told := time.Now()
	p.signal(t, syscall.SIGTERM)
	p.wantExit(t, told, 0, time.Second+tolerance)
	p.wantAnswered(t)
}

// TestPod_BothToldAtOnce: where nothing orders the end, as with a classic
// container, the sidecar outlives the app's last calls and leaves a second
// after them.
func TestPod_BothToldAtOnce(t *testing.T) {
	t.Parallel()
	p := newPod(t, podConfig, podUpstream(t))
	p.startSidecar(t)
	p.startApp(t, "A")
	p.awaitCalls(t, 10)
	p.signal(t, syscall.SIGTERM)
	if err := p.app.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.awaitApp(t)
	gone := time.Now()
	p.wantExit(t, gone, 0, time.Second+tolerance)
	p.wantAnswered(t)
}

// TestPod_SidecarDies: the kubelet starts it again, and the app, which nobody
// touched, calls on.
func TestPod_SidecarDies(t *testing.T) {
	t.Parallel()
	p := newPod(t, podConfig, podUpstream(t))
	p.startSidecar(t)
	p.startApp(t, "A")
	p.awaitCalls(t, 10)
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.exited
	p.awaitCalls(t, 2) // one may have been under way
	if all := p.calls(t); all[len(all)-1].Error == "" {
		t.Errorf("a call without a sidecar: %+v", all[len(all)-1])
	}
	p.exited = make(chan struct{})
	p.startSidecar(t)
	since := len(p.calls(t)) + 1
	p.awaitCalls(t, 10)
	for _, c := range p.calls(t)[since:] {
		if c.Status != http.StatusOK {
			t.Errorf("after the sidecar's restart: %+v", c)
		}
	}
	select {
	case <-p.appExited:
		t.Errorf("the app ended: %v", p.appErr)
	default:
	}
}
