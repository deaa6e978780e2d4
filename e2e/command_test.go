package e2e

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// command prepares the sidecar with a command line, with no SIDECAR_ variable
// in its environment but the given ones.
func command(ctx context.Context, args []string, variables ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = append(environment(), variables...)
	return cmd
}

// environment is this process's, without settings of a sidecar. The race
// detector's pause of a second before every exit is switched off.
func environment() []string {
	kept := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "SIDECAR_") || strings.HasPrefix(v, "GOMEMLIMIT=") })
	return append(kept, "GORACE=atexit_sleep_ms=0")
}

// outcome is how a command ended.
type outcome struct {
	out, err string
	code     int
}

// runCommand runs the sidecar to its end.
func runCommand(t *testing.T, args []string, variables ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var out, complaints bytes.Buffer
	cmd := command(ctx, args, variables...)
	cmd.Stdout, cmd.Stderr = &out, &complaints
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatalf("sidecar %s: %v", strings.Join(args, " "), err)
	}
	return outcome{out.String(), complaints.String(), cmd.ProcessState.ExitCode()}
}

// file writes a file of the test's own and returns its path.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestCommand_Validate: exit code 0 for a good file; 1 and every fault, in the
// order of the lines, for a bad one.
func TestCommand_Validate(t *testing.T) {
	t.Parallel()
	good := file(t, "good.yaml", "dependencies:\n  - {name: a, listen: 127.0.0.1:7001, upstream: http://a.test}\n")
	if r := runCommand(t, []string{"validate", good}); r.code != 0 || r.err != "" || !strings.Contains(r.out, good) {
		t.Errorf("validate of a good file: %+v", r)
	}
	bad := file(t, "bad.yaml", "dependencies:\n  - {name: a, listen: 127.0.0.1:7001, upstream: http://a.test, timout: 1s}\n"+
		"  - {name: b, listen: 127.0.0.1:7001, upstream: ftp://b.test}\n  - {name: A, listen: 127.0.0.1:7003, upstream: http://c.test, timeout: 5}\n")
	r := runCommand(t, []string{"validate", bad})
	lines := strings.Split(strings.TrimSpace(r.err), "\n")
	want := []string{"2: dependencies[0].timout:", "3: dependencies[1].listen:", "3: dependencies[1].upstream:", "4: dependencies[2].name:", "4: dependencies[2].timeout:"}
	if r.code != 1 || r.out != "" || len(lines) != len(want) {
		t.Fatalf("validate of a bad file: %+v, want %d faults", r, len(want))
	}
	for _, w := range want {
		if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, bad+":"+w) }) {
			t.Errorf("the faults lack %q:\n%s", w, r.err)
		}
	}
	if r := runCommand(t, []string{"validate", bad + ".missing"}); r.code != 1 || !strings.Contains(r.err, bad+".missing") {
		t.Errorf("validate of no file: %+v", r)
	}
	for _, args := range [][]string{{"validate"}, {"nonsense"}, {"run", "--nonsense"}, {"run", "surplus"}} {
		if r := runCommand(t, args); r.code == 0 || r.err == "" {
			t.Errorf("sidecar %s: %+v, want a complaint", strings.Join(args, " "), r)
		}
	}
}

// TestCommand_Version: one line that names version, revision and Go, as
// sidecar_build_info does.
func TestCommand_Version(t *testing.T) {
	t.Parallel()
	r := runCommand(t, []string{"version"})
	s := start(t, one, newUpstream(t, ok))
	info := s.metrics(t).find("sidecar_build_info")
	if len(info) != 1 {
		t.Fatalf("%d series of sidecar_build_info", len(info))
	}
	if r.code != 0 || r.err != "" || strings.Count(r.out, "\n") != 1 {
		t.Errorf("version: %+v", r)
	}
	for _, label := range []string{"version", "revision", "goversion"} {
		if word := info[0].labels[label]; word == "" || !strings.Contains(r.out, word) {
			t.Errorf("%q lacks the %s %q", r.out, label, word)
		}
	}
}

// TestCommand_Healthcheck: exit code 0 while ready, 1 while draining and
// without a process; the address from flag, environment or file.
func TestCommand_Healthcheck(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, hang)
	s := start(t, base+`
shutdown: {drain_timeout: 10s}
dependencies:
  - {name: a, listen: $A, upstream: "http://$U", attempt_timeout: 8s, timeout: 8s}
`, u)
	address := s.addresses["METRICS"]
	missing := filepath.Join(t.TempDir(), "none.yaml")
	check := func(when string, ready, live int) {
		t.Helper()
		for _, how := range []struct{ args, variables []string }{
			{args: []string{"-c", s.path}},
			{args: []string{"-c", missing, "--metrics-listen", address}},
			{args: []string{"-c", missing}, variables: []string{"SIDECAR_METRICS_LISTEN=" + address}},
			{variables: []string{"SIDECAR_CONFIG=" + s.path}},
		} {
			args := append([]string{"healthcheck"}, how.args...)
			if r := runCommand(t, args, how.variables...); r.code != ready || (ready == 0) != (r.err == "") {
				t.Errorf("%s: %v %v: %+v, want exit code %d", when, args, how.variables, r, ready)
			}
			if r := runCommand(t, append(args, "--live"), how.variables...); r.code != live {
				t.Errorf("%s: %v --live: %+v, want exit code %d", when, args, r, live)
			}
		}
	}
	check("ready", 0, 0)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.do(ctx, http.MethodGet, "A", "/", nil)
	}()
	u.await(t, 1)
	s.signal(t, syscall.SIGTERM)
	s.awaitUnready(t)
	check("draining", 1, 0)
	cancel()
	<-done
	s.stop(t)
	check("gone", 1, 1)
	if r := runCommand(t, []string{"status", "-c", s.path}); r.code != 1 || r.out != "" || !strings.Contains(r.err, "is the sidecar running?") {
		t.Errorf("sidecar status of no process: %+v", r)
	}
}
