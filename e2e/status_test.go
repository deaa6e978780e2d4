package e2e

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// TestCommand_Status: the sickest dependency first, one by its name, the API's
// answer as it is, and why the last reload failed.
func TestCommand_Status(t *testing.T) {
	t.Parallel()
	s := start(t, base+`
dependencies:
  - {name: well, listen: $B, upstream: "http://$U"}
  - {name: "sick ü", listen: $A, upstream: "http://$U"}
`, newUpstream(t, ok))
	s.force(t, "sick%20%C3%BC", "open")
	status := func(args ...string) outcome { return runCommand(t, append([]string{"status", "-c", s.path}, args...)) }

	all := status()
	lines := strings.Split(all.out, "\n")
	if all.code != 0 || all.err != "" || len(lines) != 4 || !strings.HasPrefix(lines[0], "NAME ") ||
		!strings.HasPrefix(lines[1], "sick ü ") || !strings.Contains(lines[1], "open (forced)") || !strings.HasPrefix(lines[2], "well ") {
		t.Errorf("sidecar status: %+v", all)
	}
	if one := status("sick ü"); one.code != 0 || strings.Count(one.out, "\n") != 2 || strings.Contains(one.out, "well") {
		t.Errorf("sidecar status of one: %+v", one)
	}
	if none := status("nobody"); none.code != 1 || none.out != "" || !strings.Contains(none.err, "`sidecar status` lists them") {
		t.Errorf("sidecar status of no dependency: %+v", none)
	}
	for path, args := range map[string][]string{"/api/dependencies": nil, "/api/dependencies/sick%20%C3%BC": {"sick ü"}} {
		r := status(append([]string{"-o", "json"}, args...)...)
		said := s.admin(http.MethodGet, path).body
		if upTo := strings.Index(said, "open_seconds_total"); r.code != 0 || !json.Valid([]byte(r.out)) || !strings.HasPrefix(r.out, said[:upTo]) {
			t.Errorf("sidecar status -o json %s: %+v, want what %s says", args, r, path)
		}
	}

	s.failReload(t, "dependencies:\n  - {name: well, listen: $B, upstream: \"http://$U\", timout: 1s}\n")
	if r := status(); r.code != 0 || !strings.Contains(r.out, "The last reload, at ") || !strings.Contains(r.out, "dependencies[0].timout: unknown key, did you mean timeout?") {
		t.Errorf("sidecar status after a failed reload: %+v", r)
	}
}

// TestCommand_Completion: the shells' scripts; names of dependencies from the
// running sidecar, or from the file without one; files and values of flags.
func TestCommand_Completion(t *testing.T) {
	t.Parallel()
	for shell, word := range map[string]string{"bash": "complete -o", "zsh": "compdef", "fish": "complete -c sidecar", "powershell": "Register-ArgumentCompleter"} {
		if r := runCommand(t, []string{"completion", shell}); r.code != 0 || r.err != "" || !strings.Contains(r.out, word) {
			t.Errorf("completion %s: %.200v", shell, r)
		}
	}
	s := start(t, one, newUpstream(t, ok))
	missing := filepath.Join(t.TempDir(), "none.yaml")
	for _, c := range []struct {
		args []string
		want string // the suggestions, and what the shell is told
	}{
		{[]string{"status", "-c", missing, "--admin-listen", s.addresses["ADMIN"], ""}, "a\tclosed\n:36\n"},
		{[]string{"status", "-c", s.path, "--admin-listen", "127.0.0.1:1", ""}, "a\n:4\n"},
		{[]string{"status", "-c", missing, "--admin-listen", "127.0.0.1:1", ""}, ":4\n"},
		{[]string{"status", "-c", s.path, "a", ""}, ":4\n"},
		{[]string{"status", "-o", ""}, "table\njson\n:4\n"},
		{[]string{"validate", ""}, "yaml\nyml\n:8\n"},
		{[]string{"validate", "--color", ""}, "auto\nalways\nnever\n:4\n"},
		{[]string{"run", "--config", ""}, "yaml\nyml\n:8\n"},
	} {
		if r := runCommand(t, append([]string{"__complete"}, c.args...)); r.code != 0 || r.out != c.want {
			t.Errorf("completion of %q: %+v, want %q", c.args, r, c.want)
		}
	}
}
