package config

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the expected errors in testdata/bad")

// Each bad file has the exact text of its faults beside it.
func TestBadFiles(t *testing.T) {
	for _, file := range files(t, "bad") {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			c, err := Load(file, Process{})
			if err == nil {
				t.Fatal("the file was accepted")
			}
			if c != nil {
				t.Error("a configuration was returned together with faults")
			}
			golden := strings.TrimSuffix(file, ".yaml") + ".err"
			got := err.Error() + "\n"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

// Each good file is accepted, and so is its effective configuration, with the
// same meaning.
func TestGoodFiles(t *testing.T) {
	for _, file := range files(t, "good") {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			c, err := Load(file, Process{})
			if err != nil {
				t.Fatal(err)
			}
			text, err := c.Effective()
			if err != nil {
				t.Fatal(err)
			}
			again, err := Parse(file, text, Process{})
			if err != nil {
				t.Fatalf("the effective configuration is refused: %v\n%s", err, text)
			}
			if !reflect.DeepEqual(c, again) {
				t.Errorf("the effective configuration means something else:\n%s", text)
			}
		})
	}
}

func files(t *testing.T, folder string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join("testdata", folder, "*.yaml"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no files in testdata/%s: %v", folder, err)
	}
	return found
}
