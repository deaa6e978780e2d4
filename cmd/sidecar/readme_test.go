package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"sidecar/config"
	"sidecar/telemetry"
)

var update = flag.Bool("update", false, "write the README's tables anew")

const readme = "../../README.md"

// The README's tables say what the code does: they are made of the same
// descriptions. After a change: go test ./cmd/sidecar -run README -update.
func TestREADMETables(t *testing.T) {
	data, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for name, table := range map[string]string{
		"process keys":    keyTable(false),
		"dependency keys": keyTable(true),
		"metrics":         metricTable(),
	} {
		begin, end := "<!-- "+name+" -->\n", "<!-- end -->"
		before, rest, ok := strings.Cut(text, begin)
		old, after, closed := strings.Cut(rest, end)
		if !ok || !closed {
			t.Fatalf("README.md lacks the place for %q", name)
		}
		if old != table && !*update {
			t.Errorf("README.md's table of %s is not what the code says; run: go test ./cmd/sidecar -run README -update", name)
		}
		text = before + begin + table + end + after
	}
	if *update {
		if err := os.WriteFile(readme, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// keyTable lists the keys of a dependency, or those of the process.
func keyTable(ofDependency bool) string {
	var b strings.Builder
	b.WriteString("| key | default | meaning |\n|---|---|---|\n")
	for _, k := range config.Reference() {
		name, belongs := strings.CutPrefix(k.Name, "dependencies[].")
		if belongs != ofDependency {
			continue
		}
		value := k.Default
		if value != "" {
			value = "`" + value + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, value, escape(k.Usage))
	}
	return b.String()
}

func metricTable() string {
	var b strings.Builder
	b.WriteString("| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for _, m := range telemetry.Describe() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.Name, m.Type, strings.Join(m.Labels, ", "), escape(m.Help))
	}
	return b.String()
}

func escape(s string) string { return strings.ReplaceAll(s, "|", "\\|") }

// The commands that the README opens with are those that exist.
func TestREADMECommands(t *testing.T) {
	data, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"go run ./cmd/sidecar demo", "go test ./..."} {
		if !strings.Contains(string(data), command) {
			t.Errorf("README.md does not say %q", command)
		}
	}
	for _, c := range rootCommand().Commands() {
		if name := c.Name(); !strings.Contains(string(data), "sidecar "+name) && name != "help" && name != "completion" {
			t.Errorf("README.md does not describe the command %q", name)
		}
	}
}
