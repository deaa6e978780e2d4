// Package peers knows how each proxy of the benchmark is configured.
//
// Every peer is set up as its own manual advises for many calls: kept
// connections to both sides, no access log, as many threads as it takes by
// default. The rest is said by the policy, in the peer's own means; what it has
// no means for it refuses with ErrCannot, and its place in the table is empty.
package peers

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Policy is what a peer is to do beside passing calls on.
type Policy int

// The policies of the workloads.
const (
	Proxy  Policy = iota // nothing
	Refuse               // answer with a 503 while the upstream fails
	Static               // answer with a fixed body while the upstream fails
	Stale                // keep copies, and answer with them while the upstream fails
	Store                // keep copies of the answers that pass, and answer with none
	Queue                // let Limit calls run, and all others wait for their turn
	Guard                // protect callers of several upstreams from a sick one: Limit, timeout, fallback
)

// Settings that are the same for all peers.
const (
	StaticSize  = 1024 // bytes of a fixed answer
	guardLimit  = 20   // calls at once to each guarded upstream
	guardSecond = "1s" // longest guarded call
	keptIdle    = 512  // connections kept to an upstream
)

// Setup is what is asked of a peer.
type Setup struct {
	Policy  Policy
	Routes  []Route
	Dir     string // an empty folder of the peer's own
	Admin   string // host and port of the sidecar's admin listener
	Metrics string // host and port of /metrics, where a peer has them apart
	Profile bool   // the sidecar's admin listener also serves pprof
	Answer  []byte // what plain answers: a whole HTTP/1.1 response
}

// Route is a listener and where its calls go.
type Route struct {
	Listen   string // host and port
	Upstream string // host and port
	Keep     bool   // under Guard: keep copies, and answer with them while the upstream fails
}

// ErrAbsent says that a peer's program is not on the PATH.
var ErrAbsent = errors.New("not on the PATH")

// ErrCannot says that a peer has no means for a policy.
var ErrCannot = errors.New("has no means for this")

// Peer is a proxy.
type Peer interface {
	Name() string
	// Version returns what the program says of itself, or ErrAbsent.
	Version() (string, error)
	// Command writes the configuration into the setup's folder and returns
	// the program with its arguments; it stays in the foreground. The error
	// is ErrCannot where there is no configuration for the policy.
	Command(s Setup) ([]string, error)
}

// All returns every peer. The programs that were built for the benchmark are
// in a folder.
func All(built string) []Peer {
	return []Peer{
		Own{name: "bare", path: filepath.Join(built, "bare"), args: bareArgs},
		Built(built),
		Sidecar{path: filepath.Join(built, "sidecar"), logging: true},
		Plain{Own{name: "plain", path: filepath.Join(built, "plain"), args: plainArgs}},
		Own{name: "handwritten", path: filepath.Join(built, "handwritten"), args: handwrittenArgs},
		Nginx{},
		HAProxy{},
		Caddy{},
		Traefik{},
		Varnish{},
		Direct{},
	}
}

// Built returns the sidecar that was built into a folder.
func Built(folder string) Sidecar { return Sidecar{path: filepath.Join(folder, "sidecar")} }

// Other returns another binary of the sidecar, to be compared with the one that
// was built.
func Other(path string) Sidecar { return Sidecar{path: path, other: true} }

// Readier is a peer that tells by itself when it is ready, on its metrics
// listener.
type Readier interface {
	// ReadyPath answers 200 as soon as every listener accepts.
	ReadyPath() string
}

// Plain never asks an upstream: it writes the answer that it was given.
type Plain struct{ Own }

// Direct is no proxy at all: the app calls the upstream.
type Direct struct{}

// Name returns "none".
func (Direct) Name() string { return "none" }

// Version returns nothing.
func (Direct) Version() (string, error) { return "–", nil }

// Command returns no command: the upstream is called directly.
func (Direct) Command(s Setup) ([]string, error) {
	if s.Policy != Guard {
		return nil, ErrCannot
	}
	return nil, nil
}

// FreeAddr returns a loopback address on which nothing listens at present.
func FreeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close() //nolint:errcheck // nothing was sent
	return l.Addr().String(), nil
}

// version returns the first line that a program on the PATH prints about
// itself, and what it was built from if that is Go.
func version(program string, args ...string) (string, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return "", ErrAbsent
	}
	out, err := exec.Command(path, args...).CombinedOutput() //nolint:gosec // names of this package's own
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", program, strings.Join(args, " "), err)
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if built, err := buildinfo.ReadFile(path); err == nil {
		line += fmt.Sprintf(" (module %s, %s)", built.Main.Version, built.GoVersion)
	}
	return line, nil
}

// write puts a file into the setup's folder and returns its path.
func (s Setup) write(name, text string) (string, error) {
	path := filepath.Join(s.Dir, name)
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// port returns the port of an address.
func port(addr string) string { return addr[strings.LastIndexByte(addr, ':')+1:] }

// staticBody is the body of every fixed answer.
var staticBody = strings.Repeat("x", StaticSize)
