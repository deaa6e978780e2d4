package suites

import (
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// h2specGroups are h2spec's three groups, in strict mode.
var h2specGroups = []string{"generic", "http2", "hpack"}

// TestH2spec runs h2spec against the sidecar's h2c listener and against a plain
// net/http server with the upstream's handler. The sidecar must fail no case
// that plain net/http passes.
//
// Some cases wait for a moment that may or may not come, so a case counts as
// failed only if it fails twice, and as passed by plain net/http only if it
// never failed there.
func TestH2spec(t *testing.T) {
	t.Parallel()
	program(t, h2specProgram) // once, before two goroutines ask for it
	upstream := serve(t, http.HandlerFunc(hello))
	s := startSidecar(t, sidecarBinary(t), dependency{name: "h2", upstream: fmt.Sprintf("http://127.0.0.1:%d", upstream)})

	plain := make(chan report, 1)
	go func() { plain <- h2spec(t, upstream, h2specGroups...) }()
	got := h2spec(t, s.ports["h2"], h2specGroups...)
	want := <-plain
	if t.Failed() {
		return
	}
	for name := range got.failed {
		if !want.failed[name] && !h2spec(t, s.ports["h2"], section(name)).failed[name] {
			t.Logf("passed when repeated: %s", name)
			delete(got.failed, name)
		}
	}
	for name := range got.failed {
		if want.failed[name] {
			continue
		}
		if h2spec(t, upstream, section(name)).failed[name] {
			t.Logf("plain net/http fails when repeated: %s", name)
			continue
		}
		t.Errorf("the sidecar fails what plain net/http passes: %s", name)
	}
	t.Logf("plain net/http: %d cases, %d failed; sidecar: %d cases, %d failed", want.cases, len(want.failed), got.cases, len(got.failed))
	for _, name := range slices.Sorted(maps.Keys(got.failed)) {
		t.Logf("both fail: %s", name)
	}
	if got.cases != want.cases || got.cases < 140 {
		t.Errorf("%d cases ran against the sidecar, %d against net/http; want the same, and at least 140", got.cases, want.cases)
	}
	s.atRest("h2")
}

// hello answers every method after it has read the request.
func hello(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err == nil {
		fmt.Fprintln(w, "Hello, world")
	}
}

// report is what h2spec found. Cases are named "section: description".
type report struct {
	cases  int
	failed map[string]bool
}

// section returns the part of a case's name by which h2spec can be asked for
// it.
func section(name string) string {
	s, _, _ := strings.Cut(name, ": ")
	return s
}

// h2spec runs the cases of some sections against a port.
func h2spec(t *testing.T, port int, sections ...string) report {
	file := filepath.Join(t.TempDir(), "report.xml")
	args := append([]string{"--strict", "--timeout", "2", "--host", "127.0.0.1", "--port", strconv.Itoa(port), "--junit-report", file}, sections...)
	out, _ := exec.CommandContext(t.Context(), program(t, h2specProgram), args...).CombinedOutput() // fails with any case
	data, err := os.ReadFile(file)
	if err != nil {
		t.Errorf("h2spec left no report: %v\n%s", err, out)
		return report{}
	}
	var junit struct {
		Cases []struct {
			Section     string  `xml:"package,attr"`
			Description string  `xml:"classname,attr"`
			Failure     *string `xml:"failure"`
			Error       *string `xml:"error"`
		} `xml:"testsuite>testcase"`
	}
	if err := xml.Unmarshal(data, &junit); err != nil {
		t.Errorf("h2spec's report: %v", err)
	}
	r := report{cases: len(junit.Cases), failed: map[string]bool{}}
	for _, c := range junit.Cases {
		if c.Failure != nil || c.Error != nil {
			r.failed[c.Section+": "+c.Description] = true
		}
	}
	return r
}
