package deploy

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// installed is where the unit wants the binary.
const installed = "/usr/local/bin/sidecar"

// exposure is the largest score of systemd-analyze security, in tenths, that
// the unit may have: 100 is a service without any protection.
const exposure = 15

// unit returns the systemd unit and its settings; a key that stands twice has
// both values.
func unit(t *testing.T) (text string, settings map[string][]string) {
	t.Helper()
	text, settings = read(t, filepath.Join(root, "deploy/systemd/sidecar.service")), map[string][]string{}
	for line := range strings.Lines(text) {
		if key, value, found := strings.Cut(strings.TrimSpace(line), "="); found && !strings.HasPrefix(key, "#") {
			settings[key] = append(settings[key], value)
		}
	}
	return text, settings
}

// TestSystemd_Verify: systemd understands every line, and the service is
// exposed to hardly anything.
func TestSystemd_Verify(t *testing.T) {
	t.Parallel()
	analyze := need(t, "systemd-analyze", "systemd")
	text, _ := unit(t)
	path := write(t, t.TempDir(), "sidecar.service", strings.ReplaceAll(text, installed, sidecarBinary(t)))
	if out := mustCommand(t, ".", analyze, "verify", path); out != "" {
		t.Errorf("systemd-analyze verify: %s", out)
	}
	slip := write(t, t.TempDir(), "sidecar.service", strings.Replace(read(t, path), "ProtectSystem=", "ProtectSytem=", 1))
	if out, err := command(".", analyze, "verify", slip); err == nil && out == "" {
		t.Error("systemd-analyze verify does not see a misspelt setting")
	}
	if help := mustCommand(t, ".", analyze, "--help"); !strings.Contains(help, "--offline") {
		t.Skip("this systemd-analyze cannot judge a unit that is not installed (systemd 250 can)")
	}
	mustCommand(t, ".", analyze, "security", "--no-pager", "--offline=true", fmt.Sprintf("--threshold=%d", exposure), path)
}

// TestSystemd_Times: systemd waits longer than the sidecar drains by default.
func TestSystemd_Times(t *testing.T) {
	t.Parallel()
	_, settings := unit(t)
	stop, err := time.ParseDuration(settings["TimeoutStopSec"][0])
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^  drain_timeout: (\S+)`).FindStringSubmatch(read(t, filepath.Join(root, "sidecar.example.yaml")))
	if found == nil {
		t.Fatal("sidecar.example.yaml has no drain_timeout")
	}
	if drain, err := time.ParseDuration(found[1]); err != nil || stop < drain+5*time.Second {
		t.Errorf("systemd kills after %s, the sidecar drains for %s: %v", stop, drain, err)
	}
}

// TestSystemd_Commands: the unit's own command lines start the sidecar, reload
// it, and refuse to reload a faulty file.
func TestSystemd_Commands(t *testing.T) {
	t.Parallel()
	_, settings := unit(t)
	admin, metrics := freeAddress(t), freeAddress(t)
	config := fmt.Sprintf("admin: {listen: %q}\nmetrics: {listen: %q}\ndependencies: [{name: a, listen: %q, upstream: \"http://a.test\"}]\n",
		admin, metrics, freeAddress(t))
	path := write(t, t.TempDir(), "sidecar.yaml", config)
	variable, _, _ := strings.Cut(settings["Environment"][0], "=")
	arguments := func(line, config, pid string) []string {
		return strings.Fields(strings.NewReplacer(installed, sidecarBinary(t), "${"+variable+"}", config, "$MAINPID", pid).Replace(line))
	}
	start := append([]string{variable + "=" + path}, arguments(settings["ExecStart"][0], path, "")...)
	p := run(t, stopSignal, "/usr/bin/env", start...)
	says := func(word string) {
		t.Helper()
		eventually(t, word, func() bool { return strings.Contains(p.out.String(), `"msg":"`+word+`"`) })
	}
	says("ready")
	reload := func(config string) error {
		for _, line := range settings["ExecReload"] {
			a := arguments(line, config, fmt.Sprint(p.cmd.Process.Pid))
			if _, err := command(".", a[0], a[1:]...); err != nil {
				return err
			}
		}
		return nil
	}
	if err := reload(path); err != nil {
		t.Fatal(err)
	}
	says("configuration reloaded")
	faulty := write(t, t.TempDir(), "sidecar.yaml", config+"retries: 3\n")
	if err := reload(faulty); err == nil || !strings.Contains(err.Error(), "retries") {
		t.Errorf("the reload of a faulty file: %v", err)
	}
	if n := strings.Count(p.out.String(), "reloaded"); n != 1 {
		t.Errorf("the process was told to reload %d times, want 1: not for the faulty file", n)
	}
}
