package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing wrong with a configuration.
type Fault struct {
	File    string // as given to Load; empty when the value came from a flag or the environment
	Line    int    // from 1; 0 when it has no line
	Column  int    // of the value or key at fault, in characters from 1; 0 when it is not known
	Key     string // full key path such as dependencies[0].timeout; empty for the file as a whole
	Message string // what was expected and what was found
}

// String returns the fault on one line.
func (f Fault) String() string {
	var b strings.Builder
	if f.File != "" {
		b.WriteString(f.File)
		if f.Line > 0 {
			fmt.Fprintf(&b, ":%d", f.Line)
		}
		b.WriteString(": ")
	}
	if f.Key != "" {
		b.WriteString(f.Key)
		b.WriteString(": ")
	}
	b.WriteString(f.Message)
	return b.String()
}

// Faults are all the faults of one configuration, sorted by line. It is never
// empty when returned as an error.
type Faults []Fault

// Error returns one line for each fault.
func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}

// sorted puts the faults in order of their lines and drops repetitions, which
// arise where one faulty value is inherited or aliased several times.
func (fs Faults) sorted() Faults {
	out := slices.Clone(fs)
	slices.SortStableFunc(out, func(a, b Fault) int { return cmp.Compare(a.Line, b.Line) })
	seen := make(map[Fault]bool, len(out))
	return slices.DeleteFunc(out, func(f Fault) bool {
		f.Column = 0
		if seen[f] {
			return true
		}
		seen[f] = true
		return false
	})
}
