package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// mostFile is the size of a configuration file, in bytes.
const mostFile = 4 * mib

// Process is what the file alone does not say.
type Process struct {
	// OpenFiles is how many files the process may open (the soft limit of
	// RLIMIT_NOFILE); 0 = not known, not checked.
	OpenFiles uint64
	// Set returns the value of a process scalar such as "log.level" that a flag
	// or the environment sets, and whether one does. It may be nil.
	Set func(key string) (string, bool)
}

// Load reads and parses a file. The error is Faults, or says why the file
// cannot be read.
func Load(path string, p Process) (*Config, error) {
	c, _, err := read(path, p)
	return c, err
}

// read is [Load], and tells what was taken in, whether or not it was of use.
func read(path string, p Process) (*Config, intake, error) {
	in := intake{}
	data, err := in.read(path, mostFile)
	if err != nil {
		return nil, in, fmt.Errorf("read configuration: %w; name a readable file", err)
	}
	c, err := decode(path, data, p, in)
	return c, in, err
}

// Parse parses the bytes of a file. The path names the file in faults, and a
// relative body_file starts from its folder. The error is Faults.
func Parse(path string, data []byte, p Process) (*Config, error) {
	return decode(path, data, p, intake{})
}

func decode(path string, data []byte, p Process, in intake) (*Config, error) {
	d := newDecoder(path, filepath.Dir(path), in)
	c := Default()
	if root := d.document(data); root != nil {
		d.root(root, c)
	}
	d.external = true
	d.override(c, p)
	d.external = false
	for i := range c.Dependencies {
		c.Dependencies[i].resolve()
		c.Dependencies[i].TLS.content = d.contentOf(c.Dependencies[i].TLS)
	}
	d.validate(c, p)
	if len(d.faults) > 0 {
		faults := d.faults.sorted()
		if d.cut {
			faults = append(faults, Fault{File: d.file, Message: fmt.Sprintf("more than %d faults, the rest is not shown", mostFaults)})
		}
		return nil, faults
	}
	return c, nil
}

// document parses the one YAML document of a file and returns its root, or nil
// after a fault.
func (d *decoder) document(data []byte) *yaml.Node {
	if len(data) > mostFile {
		d.faultAt(place{}, "", "must be at most %s large", formatSize(mostFile))
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) || err == nil && isNull(doc.Content[0]) {
		d.faultAt(place{}, "", "the file is empty; it needs at least dependencies (write {} for a sidecar without any)")
		return nil
	}
	if err != nil {
		d.syntax(data, err)
		return nil
	}
	switch err := dec.Decode(&second); {
	case errors.Is(err, io.EOF):
	case err != nil:
		d.syntax(data, err)
	default:
		d.fault(&second, "", "a second YAML document begins here; put everything into one, without ---")
	}
	return doc.Content[0]
}

var syntaxError = regexp.MustCompile(`^yaml: (?:line (\d+): )?(?s:(.*))$`)

// syntax records an error of the YAML parser. The parser names no line for the
// first one, an unknown anchor and characters outside YAML.
func (d *decoder) syntax(data []byte, err error) {
	at, message := place{line: 1}, err.Error()
	if m := syntaxError.FindStringSubmatch(message); m != nil {
		message = m[2]
		if n, err := strconv.Atoi(m[1]); err == nil {
			at.line = n
		} else if i := locate(data, message); i >= 0 {
			before := bytes.TrimPrefix(data[:i], []byte("\ufeff"))
			at.line = 1 + bytes.Count(before, []byte("\n"))
			at.column = 1 + utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
		}
	}
	d.faultAt(at, "", "not valid YAML: %s", strings.ToValidUTF8(message, "?"))
}

// locate finds the place that an error without a line speaks of, or -1.
func locate(data []byte, message string) int {
	if _, rest, ok := strings.Cut(message, "unknown anchor '"); ok {
		name, _, _ := strings.Cut(rest, "'")
		return bytes.Index(data, []byte("*"+name))
	}
	if !strings.Contains(message, "control characters") && !strings.Contains(message, "UTF-8") {
		return -1
	}
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n < 2 || r < ' ' && r != '\n' && r != '\r' && r != '\t' || r == 0x7f {
			return i
		}
		i += n
	}
	return -1
}

// root decodes the whole file: the process scalars, then the defaults, then
// the dependencies over them, whatever their order in the file.
func (d *decoder) root(n *yaml.Node, c *Config) {
	file := struct {
		*Config  `yaml:",inline"`
		Defaults struct{} `yaml:"defaults" rule:"later"`
	}{Config: c}
	values := d.object(n, reflect.ValueOf(&file).Elem(), "", nil)
	base := builtin()
	if n := values["defaults"]; n != nil {
		d.object(n, reflect.ValueOf(&base).Elem(), "defaults", func(f field) bool { return f.rule.own })
	}
	if n := values["dependencies"]; n != nil {
		c.Dependencies = d.dependencies(n, base)
	}
}

// dependencies decodes the list of dependencies, each over the defaults.
func (d *decoder) dependencies(n *yaml.Node, base Dependency) []Dependency {
	const path = "dependencies"
	items, ok := d.items(n, path)
	if !ok {
		return nil
	}
	var deps []Dependency
	for i, n := range items {
		at := item(path, i)
		dep := base
		values := d.object(n, reflect.ValueOf(&dep).Elem(), at, nil)
		if shadow := values["shadow"]; shadow != nil {
			dep.Shadow = d.shadow(shadow, &dep, at+".shadow")
		}
		if routes := values["routes"]; routes != nil {
			dep.Routes = d.routes(routes, &dep, at+".routes")
		}
		deps = append(deps, dep)
	}
	return deps
}

// shadow decodes a dependency's proposed settings over its live ones. What the
// file does not propose is nil.
func (d *decoder) shadow(n *yaml.Node, dep *Dependency, path string) *Shadow {
	shadow := Shadow{Breaker: &dep.Breaker.Rules, Bulkhead: &dep.Bulkhead}
	values := d.object(n, reflect.ValueOf(&shadow).Elem(), path, nil)
	if values["breaker"] == nil {
		shadow.Breaker = nil
	}
	if values["bulkhead"] == nil {
		shadow.Bulkhead = nil
	}
	if len(values) == 0 && !d.faulty(path) {
		d.fault(n, path, "must have breaker, bulkhead or both; leave the key out for no shadow")
	}
	return &shadow
}

// routes decodes a dependency's routes, each over the dependency's policy.
func (d *decoder) routes(n *yaml.Node, dep *Dependency, path string) []Route {
	items, ok := d.items(n, path)
	if !ok {
		return nil
	}
	var routes []Route
	for i, n := range items {
		route := Route{Policy: dep.Policy}
		d.object(n, reflect.ValueOf(&route).Elem(), item(path, i), nil)
		_, route.OwnFallback = d.set[join(item(path, i), "fallback")]
		routes = append(routes, route)
	}
	return routes
}

// items lists the entries of a sequence and remembers where each stands.
func (d *decoder) items(n *yaml.Node, path string) ([]*yaml.Node, bool) {
	n = resolve(n)
	switch {
	case n.Kind == yaml.SequenceNode:
	case isNull(n):
		d.fault(n, path, "has no value; write [] for none")
		return nil, false
	default:
		d.wrongType(n, path, "a list")
		return nil, false
	}
	for i, e := range n.Content {
		if !d.count(e, item(path, i)) {
			return nil, false
		}
		d.set[item(path, i)] = d.at(e, e)
	}
	return n.Content, true
}
