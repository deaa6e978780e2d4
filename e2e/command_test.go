package e2e

import (
	"bytes"
	"context"
	"encoding/json"
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
	return runWithInput(t, "", args, variables...)
}

// runWithInput does so with a text on standard input.
func runWithInput(t *testing.T, input string, args []string, variables ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var out, complaints bytes.Buffer
	cmd := command(ctx, args, variables...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &complaints
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
	var lines, excerpts []string
	for line := range strings.SplitSeq(strings.TrimSpace(r.err), "\n") {
		if strings.HasPrefix(line, bad) {
			lines = append(lines, line)
			continue
		}
		excerpts = append(excerpts, line)
	}
	want := []string{"2: dependencies[0].timout:", "3: dependencies[1].listen:", "3: dependencies[1].upstream:", "4: dependencies[2].name:", "4: dependencies[2].timeout:"}
	if r.code != 1 || r.out != "" || len(lines) != len(want) {
		t.Fatalf("validate of a bad file: %+v, want %d faults", r, len(want))
	}
	for _, w := range want {
		if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, bad+":"+w) }) {
			t.Errorf("the faults lack %q:\n%s", w, r.err)
		}
	}
	// Under each fault its line, and a caret under the key or value.
	if len(excerpts) != 2*len(want) || excerpts[0] != "    2 |   - {name: a, listen: 127.0.0.1:7001, upstream: http://a.test, timout: 1s}" ||
		excerpts[1] != "      |                                                                ^" || strings.Contains(r.err, "\x1b") {
		t.Errorf("the excerpts are\n%s", strings.Join(excerpts, "\n"))
	}
	if r := runCommand(t, []string{"validate", bad + ".missing"}); r.code != 1 || !strings.Contains(r.err, bad+".missing") {
		t.Errorf("validate of no file: %+v", r)
	}
	for _, args := range [][]string{
		{"validate"}, {"validate", good, bad}, {"validate", "--color", "pink", good}, {"validate", "-o", "xml", good},
		{"nonsense"}, {"run", "--nonsense"}, {"run", "surplus"}, {"status", "a", "b"},
	} {
		if r := runCommand(t, args); r.code != 2 || r.out != "" || !strings.Contains(r.err, "--help`") {
			t.Errorf("sidecar %s: %+v, want a complaint and exit code 2", strings.Join(args, " "), r)
		}
	}
}

// TestCommand_ValidateForPrograms: -o json on standard output, whatever the
// outcome; - reads standard input.
func TestCommand_ValidateForPrograms(t *testing.T) {
	t.Parallel()
	type fault struct {
		File, Key, Message string
		Line, Column       int
	}
	var verdict struct {
		File         string
		Valid        bool
		Dependencies int
		Faults       []fault
		Warnings     []string
	}
	for _, c := range []struct {
		text  string
		code  int
		valid bool
		want  fault
		warns int
	}{
		{text: "dependencies: []\n", valid: true, warns: 1},
		{text: "dependencies:\n  - {listen: 1, name: ü, upstream: http://me:s3cret@a.test}\n", code: 1,
			want: fault{File: "<stdin>", Key: "dependencies[0].listen", Message: "must be a text, got 1; put it in quotes", Line: 2, Column: 14}},
		{text: "", code: 1, want: fault{File: "<stdin>", Message: "the file is empty; it needs at least dependencies (write {} for a sidecar without any)"}},
	} {
		r := runWithInput(t, c.text, []string{"validate", "-o", "json", "-"})
		verdict.Faults, verdict.Warnings = nil, nil
		if err := json.Unmarshal([]byte(r.out), &verdict); err != nil || r.code != c.code || r.err != "" {
			t.Fatalf("%v: %+v", err, r)
		}
		if verdict.Valid != c.valid || verdict.File != "<stdin>" || len(verdict.Warnings) != c.warns || verdict.Faults == nil {
			t.Errorf("the verdict is %s", r.out)
		}
		if !c.valid && (len(verdict.Faults) != 1 || verdict.Faults[0] != c.want) {
			t.Errorf("the faults are %+v, want %+v", verdict.Faults, c.want)
		}
	}
	r := runWithInput(t, "dependencies: []\n", []string{"validate", "-"})
	if r.code != 0 || r.out != "<stdin>: valid, 0 dependencies\n" || r.err != "warning: dependencies: none is configured, so nothing is forwarded\n" {
		t.Errorf("validate -: %+v", r)
	}
}

// TestCommand_Schema: one JSON object that editors understand.
func TestCommand_Schema(t *testing.T) {
	t.Parallel()
	r := runCommand(t, []string{"schema"})
	var schema struct {
		Schema     string `json:"$schema"`
		Properties map[string]any
	}
	if err := json.Unmarshal([]byte(r.out), &schema); err != nil || r.code != 0 || r.err != "" {
		t.Fatalf("%v: %+v", err, r)
	}
	if schema.Schema != "https://json-schema.org/draft/2020-12/schema" || schema.Properties["dependencies"] == nil {
		t.Errorf("the schema is of %q and begins %.200s", schema.Schema, r.out)
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
