package stale

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// directives are the parts of a Cache-Control field, RFC 9111 §5.2, by their
// names in lower case. Of two with one name the first counts (§4.2.1).
type directives map[string]string

func parseDirectives(lines []string) directives {
	if len(lines) == 0 {
		return nil
	}
	d := directives{}
	for _, line := range lines {
		for part := range splitQuoted(line) {
			name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
			name = strings.ToLower(strings.TrimSpace(name))
			if _, said := d[name]; !said {
				d[name] = strings.Trim(strings.TrimSpace(value), `"`)
			}
		}
	}
	return d
}

// splitQuoted splits a list at the commas that are not inside quotes.
func splitQuoted(line string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		quoted, from := false, 0
		for i := range len(line) {
			switch {
			case line[i] == '"':
				quoted = !quoted
			case line[i] == ',' && !quoted:
				if !yield(line[from:i]) {
					return
				}
				from = i + 1
			}
		}
		yield(line[from:])
	}
}

func (d directives) has(names ...string) bool {
	return slices.ContainsFunc(names, func(n string) bool { _, ok := d[n]; return ok })
}

// seconds reads a delta-seconds argument (RFC 9111 §1.2.2). One that cannot be
// read counts as zero, which is the careful reading (§4.2.1).
func (d directives) seconds(name string) (time.Duration, bool) {
	value, ok := d[name]
	if !ok {
		return 0, false
	}
	seconds, _ := deltaSeconds(value)
	return seconds, true
}

// deltaSeconds reads a number of seconds; one that is too large counts as 2^31
// (RFC 9111 §1.2.2).
func deltaSeconds(s string) (time.Duration, bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n > 1<<31 {
		n = 1 << 31
	}
	return time.Duration(n) * time.Second, true
}
