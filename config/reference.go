package config

import (
	"net/url"
	"reflect"
	"strings"
)

// Reference lists every key of the file in the order of the documentation,
// with its default and its meaning. Keys of a list's entries stand behind
// "[]".
func Reference() []Key {
	root := Default()
	root.Dependencies = []Dependency{DefaultDependency()}
	d := &root.Dependencies[0]
	slow, stale, static := DefaultSlowCall(), DefaultStale(), DefaultStatic()
	d.Breaker.SlowCall = &slow
	d.Fallback = []Fallback{{Stale: &stale}, {Static: &static}}
	d.Shadow = &Shadow{} // what it can propose is listed once, at the live settings
	d.Routes = []Route{{}}
	var keys []Key
	reference(reflect.ValueOf(*root), "", &keys)
	return keys
}

// reference appends the keys of a struct and of what is inside it.
func reference(v reflect.Value, path string, keys *[]Key) {
	for _, f := range fieldsOf(v.Type()) {
		fv := v.FieldByIndex(f.index)
		if v.Type() == reflect.TypeFor[Route]() && f.key != "match" {
			continue // what a route can set is listed once, at the dependency
		}
		if fv.Kind() == reflect.Pointer && fv.Type() != reflect.TypeFor[*url.URL]() {
			if fv.IsNil() && v.Type() == reflect.TypeFor[Fallback]() {
				continue // the other kind of fallback
			}
			if !fv.IsNil() {
				fv = fv.Elem()
			}
		}
		switch fv.Interface().(type) {
		case []Dependency, []Fallback, []Route:
			for i := range fv.Len() {
				reference(fv.Index(i), path+f.key+"[].", keys)
			}
			continue
		case Window:
		default:
			if fv.Kind() == reflect.Struct {
				reference(fv, path+f.key+".", keys)
				continue
			}
		}
		*keys = append(*keys, Key{Name: path + f.key, Usage: f.doc, Default: written(fv, f.rule)})
	}
}

// written is a default as it would stand in the file; empty where there is
// none.
func written(v reflect.Value, r rule) string {
	if absent(v, r) {
		return ""
	}
	n := encode(v, r)
	if n.Kind == 0 || len(n.Content) == 0 {
		return n.Value
	}
	var parts []string
	for _, e := range n.Content {
		parts = append(parts, e.Value)
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// absent reports whether a key has no default.
func absent(v reflect.Value, r rule) bool {
	return v.IsZero() && (r.required || r.omitEmpty || r.min > 0 || v.Kind() == reflect.Pointer || v.Kind() == reflect.Map)
}
