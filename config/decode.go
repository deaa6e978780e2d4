package config

import (
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	mostNodes  = 300_000 // bounds the work on a file whose aliases multiply its size
	mostFaults = 1000    // bounds the report on such a file
)

// place is where a value was set.
type place struct {
	line     int  // of its key
	column   int  // of the value if it is on that line, else of its key
	key      int  // column of its key
	external bool // by a flag or an environment variable
}

// ofKey is the place of the key alone.
func (p place) ofKey() place {
	p.column = p.key
	return p
}

// at is the place of a key with its value; of an entry of a list, both are the
// entry.
func (d *decoder) at(key, value *yaml.Node) place {
	p := place{key.Line, key.Column, key.Column, d.external}
	if value.Line == key.Line {
		p.column = value.Column
	}
	return p
}

// decoder walks the nodes of one file into structs prefilled with what they
// inherit. It collects every fault and remembers where each key was set. It
// never writes into a list, map or pointer that it found in a struct: those may
// be shared with the level above.
type decoder struct {
	file     string
	dir      string // what body_file is relative to
	external bool   // the node at hand came from a flag or the environment
	faults   Faults
	decoded  int              // how many faults were found before validate
	cut      bool             // more than mostFaults were found
	set      map[string]place // by key path
	merged   map[*yaml.Node][]pair
	merging  map[*yaml.Node]bool // mappings whose merge keys are being followed
	intake   intake              // the files read so far
	nodes    int
}

func newDecoder(file, dir string, in intake) *decoder {
	return &decoder{
		file:    file,
		dir:     dir,
		set:     make(map[string]place),
		merged:  make(map[*yaml.Node][]pair),
		merging: make(map[*yaml.Node]bool),
		intake:  in,
	}
}

// fault records a fault at a node of the file.
func (d *decoder) fault(n *yaml.Node, path, format string, args ...any) {
	d.faultAt(d.at(n, n), path, format, args...)
}

func (d *decoder) faultAt(p place, path, format string, args ...any) {
	if len(d.faults) >= mostFaults {
		d.cut = true
		return
	}
	f := Fault{File: d.file, Line: p.line, Column: p.column, Key: path, Message: fmt.Sprintf(format, args...)}
	if p.external {
		f = Fault{Key: path + " (from flag or environment)", Message: f.Message}
	}
	d.faults = append(d.faults, f)
}

// faulty reports whether a fault was found at a path or below it.
func (d *decoder) faulty(path string) bool { return d.faults.at(path) }

func (fs Faults) at(path string) bool {
	for _, f := range fs {
		rest, ok := strings.CutPrefix(f.Key, path)
		if ok && (rest == "" || rest[0] == '.' || rest[0] == '[' || rest[0] == ' ') {
			return true
		}
	}
	return false
}

// find returns where the key at path was set, or the nearest level above it.
func (d *decoder) find(path string) place {
	for path != "" {
		if p, ok := d.set[path]; ok {
			return p
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return place{line: 1}
}

// blame records a fault between several keys at the innermost level that set
// one of them, keys in order of preference, or else at the innermost level.
// Nothing is recorded when one of the keys has a fault of its own, since the
// value compared is then not the one written.
func (d *decoder) blame(levels, keys []string, format string, args ...any) {
	at := ""
	for _, level := range levels {
		for _, key := range keys {
			path := level + "." + key
			if d.faults[:d.decoded].at(path) {
				return
			}
			if _, ok := d.set[path]; ok && at == "" {
				at = path
			}
		}
	}
	if at == "" {
		at = levels[0] + "." + keys[0]
	}
	d.faultAt(d.find(at), at, format, args...)
}

// count adds a value to the work done. It returns false, after one fault, when
// that is too much.
func (d *decoder) count(n *yaml.Node, path string) bool {
	d.nodes++
	if d.nodes == mostNodes+1 {
		d.fault(n, path, "the file has more than %d values once its aliases are followed; use fewer aliases", mostNodes)
	}
	return d.nodes <= mostNodes
}

// value decodes a node into v, which holds the inherited value.
func (d *decoder) value(n *yaml.Node, v reflect.Value, path string, r rule) {
	if !d.count(n, path) {
		return
	}
	n = resolve(n)
	if isNull(n) {
		if v.Kind() != reflect.Struct || isScalarType(v.Type()) {
			d.fault(n, path, "has no value; write one or leave the key out")
			return
		}
	}
	if isScalarType(v.Type()) {
		d.scalar(n, v, path, r)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.object(n, v, path, nil)
	case reflect.Pointer:
		d.pointer(n, v, path)
	case reflect.Slice:
		d.list(n, v, path, r)
	case reflect.Map:
		d.textMap(n, v, path, r)
	default:
		d.scalar(n, v, path, r)
	}
}

// object decodes a mapping into a struct and reports what it holds.
func (d *decoder) object(n *yaml.Node, v reflect.Value, path string, except func(field) bool) map[string]*yaml.Node {
	pairs, ok := d.mapping(n, path)
	if !ok {
		return nil
	}
	var known []field
	var names []string
	for _, f := range fieldsOf(v.Type()) {
		if except == nil || !except(f) {
			known = append(known, f)
			names = append(names, f.key)
		}
	}
	values := make(map[string]*yaml.Node, len(pairs))
	for _, p := range pairs {
		at := join(path, p.key)
		f, ok := lookup(known, p.key)
		if !ok {
			d.unknown(p, at, names)
			continue
		}
		d.set[at] = d.at(p.at, p.value)
		values[p.key] = p.value
		if !f.rule.later {
			d.value(p.value, v.FieldByIndex(f.index), at, f.rule)
		}
	}
	for _, f := range known {
		if f.rule.required && values[f.key] == nil {
			d.fault(n, join(path, f.key), "is required")
		}
	}
	d.check(v, path)
	return values
}

// unknown records a key that does not exist here.
func (d *decoder) unknown(p pair, path string, known []string) {
	switch s, ok := suggest(p.key, known); {
	case strings.HasSuffix(path, ".shadow.breaker.mode"):
		d.fault(p.at, path, "unknown key here: a shadow decides and refuses nothing; leave it out")
	case isDependencyKey(p.key):
		d.fault(p.at, path, "unknown key here, it belongs to a dependency")
	case ok:
		d.fault(p.at, path, "unknown key, did you mean %s?", s)
	default:
		d.fault(p.at, path, "unknown key, known here: %s", strings.Join(known, ", "))
	}
}

func isDependencyKey(key string) bool {
	_, ok := lookup(fieldsOf(reflect.TypeFor[Dependency]()), key)
	return ok
}

func lookup(fields []field, key string) (field, bool) {
	for _, f := range fields {
		if f.key == key {
			return f, true
		}
	}
	return field{}, false
}

// pointer decodes an optional mapping over a copy of the inherited one, or
// over its defaults.
func (d *decoder) pointer(n *yaml.Node, v reflect.Value, path string) {
	fresh, _ := prefilled(v.Type().Elem())
	if !v.IsNil() {
		fresh.Elem().Set(v.Elem())
	}
	if n.Kind != yaml.MappingNode {
		d.wrongType(n, path, "a mapping")
		return
	}
	v.Set(fresh)
	d.object(n, fresh.Elem(), path, nil)
}

// list decodes a sequence, which replaces the inherited list.
func (d *decoder) list(n *yaml.Node, v reflect.Value, path string, r rule) {
	if n.Kind != yaml.SequenceNode {
		d.wrongType(n, path, "a list")
		return
	}
	list := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, e := range n.Content {
		at := item(path, i)
		d.set[at] = d.at(e, e)
		d.value(e, list.Index(i), at, r)
	}
	if list.Len() == 0 {
		list = reflect.Zero(v.Type())
	}
	v.Set(list)
}

// textMap decodes a mapping with free keys, which replaces the inherited map.
func (d *decoder) textMap(n *yaml.Node, v reflect.Value, path string, r rule) {
	pairs, ok := d.mapping(n, path)
	if !ok {
		return
	}
	var m map[string]string
	for _, p := range pairs {
		at := join(path, p.key)
		d.set[at] = d.at(p.at, p.value)
		var s string
		d.value(p.value, reflect.ValueOf(&s).Elem(), at, r)
		if m == nil {
			m = make(map[string]string, len(pairs))
		}
		m[p.key] = s
	}
	v.Set(reflect.ValueOf(m))
}
