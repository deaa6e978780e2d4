package config

import (
	"os"
	"path/filepath"
	"testing"
)

// TestListeners: a faulty file still tells where its sidecar listens.
func TestListeners(t *testing.T) {
	for text, want := range map[string][2]string{
		"": {"127.0.0.1:9900", "127.0.0.1:9901"},
		"admin: {listen: 127.0.0.1:1}\nmetrics: {listen: 0.0.0.0:2}\n":                                    {"127.0.0.1:1", "0.0.0.0:2"},
		"admin: {listen: 127.0.0.1:1, listem: 3}\nmetrics: {listen: [1]}\ntimout: 1s\ndependencies: {}\n": {"127.0.0.1:1", "127.0.0.1:9901"},
		"admin: {listen: 127.0.0.1:70000}\nmetrics: 5\n":                                                  {"127.0.0.1:9900", "127.0.0.1:9901"},
		"admin: {listen: 127.0.0.1:1\nmetrics\t":                                                          {"127.0.0.1:9900", "127.0.0.1:9901"},
		"metrics: &m {listen: \":2\"}\nadmin: *m\n":                                                       {":2", ":2"},
	} {
		path := filepath.Join(t.TempDir(), "sidecar.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if admin, metrics := Listeners(path); admin != want[0] || metrics != want[1] {
			t.Errorf("%q: %s and %s, want %v", text, admin, metrics, want)
		}
	}
	if admin, metrics := Listeners(filepath.Join(t.TempDir(), "none")); admin != "127.0.0.1:9900" || metrics != "127.0.0.1:9901" {
		t.Errorf("without a file: %s and %s", admin, metrics)
	}
}
