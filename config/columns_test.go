package config

import (
	"strings"
	"testing"
)

// Each fault stands at its key or value: the ^ in the line below points at it,
// counted in characters.
func TestColumns(t *testing.T) {
	for name, text := range map[string]string{
		"value":           "log: {level: loud}\n#            ^",
		"unknown key":     "timout: 1s\n#^",
		"behind é":        "log: {level: info, é: 1}\n#                  ^",
		"duplicate key":   "log: {}\nlog: {}\n#^",
		"entry of a list": "defaults: {failure: {statuses: [500, \"x\"]}}\n#                                    ^",
		"alias":           "defaults: {timeout: &t 5, idle_timeout: *t}\n#                   ^",
		"merged":          "defaults: {bulkhead: {<<: 5}}\n#                         ^",
		"missing key":     "dependencies:\n  - name: a\n#   ^\n    listen: 127.0.0.1:7001",
		"between values":  "defaults:\n  retry: {backoff: {base: 9s}}\n#                         ^\ndependencies: [{name: a, listen: \":1\", allow_remote: true, upstream: http://a}]",
		"listener":        "admin: {listen: 0.0.0.0:9900}\n#               ^",
		"header name":     "defaults: {fallback: [static: {headers: {Upgrade: x}}]}\n#                                        ^",
		"header value":    "defaults: {fallback: [static: {headers: {X-A: ' x'}}]}\n#                                             ^",
		"value below":     "defaults:\n  fallback:\n    - {}\n#     ^",
		"anchor":          "admin: {}\nlog: *none\n#    ^",
		"after a BOM":     "\ufefflog: {level: loud}\n#            ^",
	} {
		before, _, _ := strings.Cut(text, "^")
		lines := strings.Split(before, "\n")
		line, column := len(lines)-1, len(lines[len(lines)-1])+1
		if strings.HasPrefix(lines[len(lines)-1], "#") && column == 2 {
			column = 1 // the # takes the place of the first one
		}
		got := faultsOf(t, text, Process{})
		if got[0].Line != line || got[0].Column != column {
			t.Errorf("%s: %d:%d %s, want %d:%d", name, got[0].Line, got[0].Column, got[0], line, column)
		}
	}
	if f := faultsOf(t, "", Process{})[0]; f.Line != 0 || f.Column != 0 {
		t.Errorf("an empty file has a fault at %d:%d", f.Line, f.Column)
	}
}
