package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
)

// output is what the process wrote to its standard error. It is safe for
// concurrent use.
type output struct {
	mu   sync.Mutex // guards everything below
	data bytes.Buffer
}

// mostOutput bounds what is kept of it.
const mostOutput = 32 << 20

// Write implements [io.Writer].
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.data.Len() < mostOutput {
		o.data.Write(p)
	}
	return len(p), nil
}

func (o *output) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.data.String()
}

// tail returns the last lines.
func (o *output) tail(lines int) string {
	all := strings.Split(strings.TrimSpace(o.text()), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// entry is one line of the log.
type entry map[string]any

// logs returns the lines whose fields have the given values, written as name,
// value, name, value.
func (s *sidecar) logs(fields ...string) []entry {
	var found []entry
next:
	for line := range strings.SplitSeq(s.output.text(), "\n") {
		var e entry
		if json.Unmarshal([]byte(line), &e) != nil {
			continue
		}
		for i := 0; i+1 < len(fields); i += 2 {
			if fmt.Sprint(e[fields[i]]) != fields[i+1] {
				continue next
			}
		}
		found = append(found, e)
	}
	return found
}
