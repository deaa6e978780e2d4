package stale

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// directives are the parts of a Cache-Control field, RFC 9111 §5.2, by their
// names in lower case.
type directives map[string]string

func parseDirectives(lines []string) directives {
	if len(lines) == 0 {
		return nil
	}
	d := directives{}
	for _, line := range lines {
		for part := range splitQuoted(line) {
			name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
			d[strings.ToLower(strings.TrimSpace(name))] = strings.Trim(strings.TrimSpace(value), `"`)
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
	n, err := strconv.ParseUint(value, 10, 63)
	if err != nil || n > math.MaxInt32 {
		if err != nil && !strings.Contains(err.Error(), "range") {
			return 0, true
		}
		n = math.MaxInt32
	}
	return time.Duration(n) * time.Second, true
}
