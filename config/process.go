package config

import (
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Key is a process scalar, which a flag or an environment variable can set.
type Key struct {
	Name    string // key path in the file, such as "log.level"
	Usage   string // what it does
	Default string // as it would be written in a file; empty = absent
	Bool    bool   // true or false, so that a flag needs no value
}

// ProcessKeys lists the process scalars in the order of the file.
func ProcessKeys() []Key {
	var keys []Key
	eachProcessKey(Default(), func(path string, f field, v reflect.Value) {
		k := Key{Name: path, Usage: f.doc, Bool: v.Kind() == reflect.Bool}
		if f.rule.oneOf != nil {
			k.Usage += " (" + strings.Join(f.rule.oneOf, ", ") + ")"
		}
		if absent := v.IsZero() && f.rule.min > 0; !absent {
			k.Default = encode(v, f.rule).Value
		}
		keys = append(keys, k)
	})
	return keys
}

// override puts the values of flags and environment over those of the file.
func (d *decoder) override(c *Config, p Process) {
	if p.Set == nil {
		return
	}
	eachProcessKey(c, func(path string, f field, v reflect.Value) {
		if s, ok := p.Set(path); ok {
			d.set[path] = place{external: true}
			d.value(&yaml.Node{Kind: yaml.ScalarNode, Value: s}, v, path, f.rule)
		}
	})
}

// eachProcessKey visits the scalars outside the dependencies.
func eachProcessKey(c *Config, visit func(path string, f field, v reflect.Value)) {
	root := reflect.ValueOf(c).Elem()
	for _, section := range fieldsOf(root.Type()) {
		v := root.FieldByIndex(section.index)
		if v.Kind() != reflect.Struct {
			continue
		}
		for _, f := range fieldsOf(v.Type()) {
			visit(section.key+"."+f.key, f, v.FieldByIndex(f.index))
		}
	}
}
