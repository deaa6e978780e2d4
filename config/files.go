package config

import (
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
)

// intake is what one reading of a configuration took in: the file itself and
// those it names. Each is read once, so that every key sees the same
// bytes.
type intake map[string]file

type file struct {
	state state // just before it was read
	data  []byte
	err   error
}

// read returns a regular file of at most the given size.
func (in intake) read(path string, most int64) ([]byte, error) {
	known, ok := in[path]
	if !ok {
		known.state = stateOf(path)
		known.data, known.err = readBounded(path, most)
		in[path] = known
	}
	return known.data, known.err
}

// states returns how the files were when they were read.
func (in intake) states() states {
	s := make(states, len(in))
	for path, file := range in {
		s[path] = file.state
	}
	return s
}

// digest stands for the contents of the files with these paths. A file that
// cannot be read has a content of its own.
func (in intake) digest(paths ...string) [sha256.Size]byte {
	h := sha256.New()
	for _, path := range paths {
		one := in[path]
		says := ""
		if one.err != nil {
			says = one.err.Error()
		}
		fmt.Fprintf(h, "%q %q %d ", path, says, len(one.data))
		h.Write(one.data)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// all lists the paths in a fixed order.
func (in intake) all() []string { return slices.Sorted(maps.Keys(in)) }

// states tells of files without reading them. Two that are equal, taken one
// after the other, mean that nothing was written in between.
type states map[string]state

// statesOf returns the present states of files.
func statesOf(paths []string) states {
	s := make(states, len(paths))
	for _, path := range paths {
		s[path] = stateOf(path)
	}
	return s
}

// readBounded reads a regular file of at most the given size.
func readBounded(path string, most int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > most {
		return nil, fmt.Errorf("%s is larger than %s", path, formatSize(most))
	}
	if len(data) == 0 {
		return nil, nil
	}
	return data, nil
}
