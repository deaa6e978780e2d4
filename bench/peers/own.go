package peers

import (
	"runtime"
	"strconv"
)

// Own is a program that was built for the benchmark.
type Own struct {
	name, path string
	args       func(s Setup) ([]string, error)
}

// Name returns the program's name.
func (o Own) Name() string { return o.name }

// Version returns the version of Go.
func (o Own) Version() (string, error) { return runtime.Version(), nil }

// Command returns the program with its flags.
func (o Own) Command(s Setup) ([]string, error) {
	args, err := o.args(s)
	return append([]string{o.path}, args...), err
}

func routeArgs(s Setup) (args []string) {
	for _, r := range s.Routes {
		args = append(args, "-route", r.Listen+"="+r.Upstream)
	}
	return args
}

// bareArgs: whatever is asked, bare passes calls on. Calls in its "queue" wait
// at the upstream.
func bareArgs(s Setup) ([]string, error) {
	switch s.Policy {
	case Proxy, Queue, Guard:
		return routeArgs(s), nil
	}
	return nil, ErrCannot
}

func plainArgs(s Setup) ([]string, error) {
	switch s.Policy {
	case Refuse, Static, Stale:
		file, err := s.write("answer", string(s.Answer))
		return []string{"-listen", s.Routes[0].Listen, "-answer", file}, err
	}
	return nil, ErrCannot
}

func handwrittenArgs(s Setup) ([]string, error) {
	args := append(routeArgs(s), "-metrics", s.Metrics)
	switch s.Policy {
	case Proxy, Refuse:
		return args, nil
	case Static:
		return append(args, "-static", strconv.Itoa(StaticSize)), nil
	case Queue:
		return append(args, "-limit", "1", "-wait", "1m", "-timeout", "1m"), nil
	case Guard:
		return append(args, "-limit", strconv.Itoa(guardLimit), "-timeout", guardSecond), nil
	}
	return nil, ErrCannot
}
