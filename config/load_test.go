package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func effective(t *testing.T, c *Config) string {
	t.Helper()
	text, err := c.Effective()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// faultsOf parses a text that must be refused.
func faultsOf(t *testing.T, text string, p Process) Faults {
	t.Helper()
	_, err := Parse("sidecar.yaml", []byte(text), p)
	var faults Faults
	if !errors.As(err, &faults) || len(faults) == 0 {
		t.Fatalf("got the error %v, want faults", err)
	}
	return faults
}

func settings(m map[string]string) Process {
	return Process{Set: func(key string) (string, bool) { s, ok := m[key]; return s, ok }}
}

func TestFlagsBeatTheFile(t *testing.T) {
	c := parse(t, "log: {level: warn, format: console}\n"+oneDependency, settings(map[string]string{
		"log.level": "debug", "log.access": "off", "log.report_interval": "5s", "admin.pprof": "true",
		"limits.max_concurrent": "50", "cache.max_bytes": "0", "admin.listen": "[::1]:9900", "shutdown.drain_timeout": "1m",
	}))
	if c.Log != (Log{Level: "debug", Format: "console", Access: "off", ReportInterval: 5 * time.Second}) {
		t.Errorf("log is %+v", c.Log)
	}
	if !c.Admin.Pprof || c.Admin.Listen != "[::1]:9900" || c.Limits.MaxConcurrent != 50 || c.Cache.MaxBytes != 0 || c.Shutdown.DrainTimeout != time.Minute {
		t.Errorf("got %+v", c)
	}
}

func TestFaultyFlagsNameTheirSource(t *testing.T) {
	faults := faultsOf(t, "log: {level: loud}\n"+oneDependency, settings(map[string]string{
		"log.level": "trace", "shutdown.drain_timeout": "25", "admin.pprof": "yes", "limits.max_concurrent": "1",
		"admin.listen": "0.0.0.0:9900", "cache.max_bytes": "64", "metrics.listen": "localhost:7001",
	}))
	want := strings.Join([]string{
		"admin.pprof (from flag or environment): must be true or false, got \"yes\"",
		"log.level (from flag or environment): must be one of debug, info, warn, error, got \"trace\"",
		"shutdown.drain_timeout (from flag or environment): must be a duration with a unit such as 500ms, got 25",
		"cache.max_bytes (from flag or environment): must be a size with a unit such as 64KiB or 10MB (B, KiB, MiB, GiB, KB, MB, GB), got 64",
		"admin.listen (from flag or environment): must be a loopback address such as 127.0.0.1:9900, got \"0.0.0.0:9900\"",
		"limits.max_concurrent (from flag or environment): must be at least 20, what the max_concurrent of all bulkheads add up to, got 1; raise it or lower them",
		"sidecar.yaml:1: log.level: must be one of debug, info, warn, error, got \"loud\"",
		"sidecar.yaml:4: dependencies[0].listen: port 7001 is already taken by metrics.listen (localhost:7001)",
	}, "\n")
	if got := faults.Error(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestProcessKeys(t *testing.T) {
	got := make(map[string]Key)
	var names []string
	for _, k := range ProcessKeys() {
		got[k.Name] = k
		names = append(names, k.Name)
		if k.Usage == "" {
			t.Errorf("%s has no usage", k.Name)
		}
	}
	want := "admin.listen admin.pprof admin.drills metrics.listen log.level log.format log.access log.report_interval " +
		"shutdown.drain_timeout limits.max_concurrent cache.max_bytes cache.max_object_bytes cache.dir"
	if s := strings.Join(names, " "); s != want {
		t.Errorf("keys are %s, want %s", s, want)
	}
	for name, value := range map[string]string{
		"log.level": "info", "admin.pprof": "false", "admin.drills": "false", "cache.max_bytes": "64MiB", "limits.max_concurrent": "",
		"shutdown.drain_timeout": "25s", "log.report_interval": "0s", "metrics.listen": "127.0.0.1:9901",
	} {
		if got[name].Default != value {
			t.Errorf("default of %s is %q, want %q", name, got[name].Default, value)
		}
	}
	if !got["admin.pprof"].Bool || !got["admin.drills"].Bool || got["log.level"].Bool {
		t.Error("admin.pprof and admin.drills are the booleans")
	}
}

// A call holds two connections, a waiter one: 2·20+10 for the defaults, and
// 100 in reserve.
func TestOpenFiles(t *testing.T) {
	if _, err := Parse("sidecar.yaml", []byte(oneDependency), Process{OpenFiles: 150}); err != nil {
		t.Errorf("150 open files are enough, got %v", err)
	}
	got := faultsOf(t, oneDependency, Process{OpenFiles: 149}).Error()
	want := "sidecar.yaml:1: dependencies: the bulkheads may need 150 open files, this process may open 149; " +
		"raise `ulimit -n` or lower max_concurrent and max_waiting"
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestUserInformationIsNeverShown(t *testing.T) {
	c := parse(t, strings.Replace(oneDependency, "http://", "http://us3r:s3cret@", 1), Process{})
	if password, _ := c.Dependencies[0].Upstream.User.Password(); password != "s3cret" {
		t.Errorf("password is %q", password)
	}
	shown := []string{effective(t, c)}
	if !strings.Contains(shown[0], "http://xxxxx@a.internal") {
		t.Errorf("the upstream is not masked:\n%s", shown[0])
	}
	for _, upstream := range []string{
		"http://us3r:s3cret@", "http://us3r:s3cret@a:0", "ftp://us3r:s3cret@a", "http://us3r:s3cret@a?b", "http://us3r:s3c/ret@a",
		"http://us3r:s3cret%zz@a", "http://us3r:s3cret @a", "us3r:s3cret@a", "\"http://us3r:s3cret@a\\n\"", "[http://us3r:s3cret@a]",
	} {
		shown = append(shown, faultsOf(t, "dependencies:\n  - {name: a, listen: \"127.0.0.1:1\", upstream: "+upstream+"}\n", Process{}).Error())
	}
	for _, s := range shown {
		if strings.Contains(s, "s3c") || strings.Contains(s, "us3r") {
			t.Errorf("a secret is shown: %s", s)
		}
	}
}

// The keys of the effective configuration come in the documented order.
func TestEffectiveOrder(t *testing.T) {
	text := effective(t, load(t, "spec.yaml"))
	at := 0
	for _, key := range []string{
		"admin:", "metrics:", "log:", "shutdown:", "limits:", "cache:", "dependencies:", "name:", "upstream:", "protocol:", "tls:",
		"timeout: 10s", "attempt_timeout: 2s", "max_request_bytes: 0", "breaker:", "window: 20", "slow_call:", "max: 5m", "ramp: 10s",
		"bulkhead:", "failure:", "retry:", "max_body_bytes: 64KiB", "fallback:", "- stale:", "- static:", "routes:", "match:", "timeout: 3s", "fallback: []",
	} {
		i := strings.Index(text[at:], key)
		if i < 0 {
			t.Fatalf("%q does not follow in\n%s", key, text)
		}
		at += i
	}
}

func TestFormats(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"0s": 0, "1.5s": 1500 * time.Millisecond, "10m": 10 * time.Minute, "1h": time.Hour, "1h0m1s": time.Hour + time.Second,
		"1h30m": 90 * time.Minute, "250ms": 250 * time.Millisecond, "1m10s": 70 * time.Second,
	} {
		if got := FormatDuration(d); got != want {
			t.Errorf("%v is written %s, want %s", d, got, want)
		}
	}
	for want, n := range map[string]int64{"0": 0, "64KiB": 65536, "1GiB": 1 << 30, "1KB": 1000, "1500KiB": 1500 << 10, "7B": 7} {
		if got := formatSize(n); got != want {
			t.Errorf("%d is written %s, want %s", n, got, want)
		}
	}
}

func TestLoadMissingFile(t *testing.T) {
	_, err := Load(filepath.Join(t.TempDir(), "none.yaml"), Process{})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestBodyFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "sidecar.yaml")
	body := filepath.Join(dir, "body")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(file, oneDependency+"    fallback: [static: {body_file: body}]\n")
	write(body, strings.Repeat("\xff", mostBody))
	c, err := Load(file, Process{})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Dependencies[0].Fallback[0].Static.Body; len(got) != mostBody || got[0] != 0xff {
		t.Errorf("the body has %d bytes, want %d", len(got), mostBody)
	}
	if text := effective(t, c); !strings.Contains(text, "body_file: body") || len(text) > 8<<10 {
		t.Errorf("the effective configuration does not name the file, or holds it; %d bytes", len(text))
	}
	write(body, strings.Repeat("x", mostBody+1))
	if _, err = Load(file, Process{}); err == nil || !strings.Contains(err.Error(), "is larger than 1MiB") {
		t.Errorf("a larger body: got %v", err)
	}
}

// Aliases of aliases cannot make a small file cost much.
func TestAliasBombs(t *testing.T) {
	var merges, lists strings.Builder
	merges.WriteString("x0: &x0 {a: 1}\n")
	lists.WriteString("x0: &x0 [a, b]\n")
	for i := 1; i < 100; i++ {
		sources := strings.Repeat(fmt.Sprintf("*x%d, ", i-1), 50)
		fmt.Fprintf(&merges, "x%d: &x%d {<<: [%s]}\n", i, i, sources)
		fmt.Fprintf(&lists, "x%d: &x%d [%s]\n", i, i, sources)
	}
	statuses := "    failure: {statuses: &s [" + strings.Repeat("503, ", 5000) + "]}\n"
	more := strings.Repeat("  - {name: b, listen: \"127.0.0.1:7001\", upstream: \"http://b\", failure: {statuses: *s}}\n", 60)
	for text, want := range map[string]string{
		merges.String() + "defaults: *x99\n":                   "defaults.a: unknown key",
		lists.String() + "defaults: {fallback: *x99}\n":        "defaults.fallback[49]: must be a mapping, got a list",
		oneDependency + statuses + more:                        "the file has more than 300000 values once its aliases are followed",
		"defaults: {" + strings.Repeat("x: 1, ", 1200) + "}\n": "more than 1000 faults, the rest is not shown",
	} {
		faults := faultsOf(t, text, Process{})
		if len(faults) > mostFaults+1 || !strings.Contains(faults.Error(), want) {
			t.Errorf("%d faults, want %q among them, the first is %v", len(faults), want, faults[0])
		}
	}
}

// FuzzParse feeds any bytes: the answer is a configuration whose effective
// text means the same, or faults, and never a panic.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/good/*.yaml", "testdata/bad/*.yaml"} {
		seeds, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range seeds {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	const file = "testdata/good/fuzz.yaml"
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse(file, data, Process{})
		if err != nil {
			var faults Faults
			if !errors.As(err, &faults) || len(faults) == 0 || c != nil {
				t.Fatalf("got %v with the error %#v", c, err)
			}
			for _, fault := range faults {
				if s := fault.String(); strings.ContainsAny(s, "\n\r") || fault.Message == "" {
					t.Errorf("not one line: %q", s)
				}
			}
			return
		}
		c.Warnings()
		text := effective(t, c)
		for _, d := range c.Dependencies {
			if d.Upstream.User != nil {
				return // masked
			}
		}
		again, err := Parse(file, []byte(text), Process{})
		if err != nil {
			t.Fatalf("the effective configuration is refused: %v\n%s", err, text)
		}
		if !c.Equal(*again) {
			t.Errorf("the effective configuration means something else:\n%s", text)
		}
	})
}

// TestRouteOwnFallback: an inherited fallback must not answer writes, so a
// route says whether its fallback stands on it.
func TestRouteOwnFallback(t *testing.T) {
	c := parse(t, `
dependencies:
  - name: a
    listen: 127.0.0.1:7001
    upstream: http://a.internal
    fallback: [static: {body: x}]
    routes:
      - match: {methods: [POST], path: /inherits}
      - match: {methods: [POST], path: /own}
        fallback: [static: {body: y}]
      - match: {methods: [POST], path: /none}
        fallback: []
`, Process{})
	var got []bool
	for _, r := range c.Dependencies[0].Routes {
		got = append(got, r.OwnFallback)
	}
	if want := []bool{false, true, true}; !slices.Equal(got, want) {
		t.Errorf("OwnFallback = %v, want %v", got, want)
	}
}
