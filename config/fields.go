package config

import (
	"math"
	"reflect"
	"strconv"
	"strings"
	"sync"
)

// rule is what a value must satisfy, read from a field's "rule" tag.
type rule struct {
	size       bool     // a number of bytes, written with a unit
	any        bool     // a string that may be written as any scalar
	conditions bool     // a list of retry conditions
	grpc       bool     // a list of gRPC status names
	positive   bool     // a duration above 0
	ratio      bool     // a number from 0 to 1
	min, max   float64  // range of a number
	oneOf      []string // the permitted strings
	own        bool     // belongs to a dependency alone, not to "defaults"
	later      bool     // decoded by the caller, after its siblings
	required   bool     // must be present
	omitEmpty  bool     // left out of Effective when it is the zero value
	named      bool     // an embedded struct that is a mapping of its own
	form       string   // the name of a text's pattern in the schema, where check.go looks closer
}

// ruleOf reads a "rule" tag: a comma-separated list of size, any, conditions,
// grpc, positive, ratio, min=N, max=N, oneof=A|B, form=NAME, own, later, required,
// omitempty, named. It panics on anything else: tags are part of the program.
func ruleOf(tag string) rule {
	r := rule{min: math.Inf(-1), max: 1e9}
	if tag == "" {
		return r
	}
	flags := map[string]*bool{
		"size": &r.size, "any": &r.any, "conditions": &r.conditions, "grpc": &r.grpc, "positive": &r.positive,
		"ratio": &r.ratio, "own": &r.own, "later": &r.later, "required": &r.required,
		"omitempty": &r.omitEmpty, "named": &r.named,
	}
	for part := range strings.SplitSeq(tag, ",") {
		name, arg, _ := strings.Cut(part, "=")
		switch name {
		case "min", "max":
			n, err := strconv.ParseFloat(arg, 64)
			if err != nil {
				panic("config: bad rule " + part)
			}
			if name == "min" {
				r.min = n
			} else {
				r.max = n
			}
		case "oneof":
			r.oneOf = strings.Split(arg, "|")
		case "form":
			if forms[arg] == "" {
				panic("config: unknown form " + arg)
			}
			r.form = arg
		default:
			if flags[name] == nil {
				panic("config: unknown rule " + part)
			}
			*flags[name] = true
		}
	}
	return r
}

// field is one key of a mapping.
type field struct {
	key   string
	doc   string
	index []int // for reflect.Value.FieldByIndex
	rule  rule
}

// fieldCache holds the result of fieldsOf by reflect.Type.
var fieldCache sync.Map

// fieldsOf lists the keys of a struct in the order of the documentation. The
// result is shared and must not be changed.
func fieldsOf(t reflect.Type) []field {
	if fields, ok := fieldCache.Load(t); ok {
		return fields.([]field)
	}
	fields := readFields(t)
	fieldCache.Store(t, fields)
	return fields
}

func readFields(t reflect.Type) []field {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		key, option, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if option == "inline" {
			for _, in := range fieldsOf(f.Type) {
				in.index = append([]int{i}, in.index...) // a new slice, the old one is shared
				fields = append(fields, in)
			}
			continue
		}
		if key == "" {
			continue
		}
		fields = append(fields, field{key, f.Tag.Get("doc"), []int{i}, ruleOf(f.Tag.Get("rule"))})
	}
	if t == reflect.TypeFor[Dependency]() {
		fields = policyLast(fields)
	}
	return fields
}

// policyLast puts the breaker and the bulkhead between the timeouts and the
// failure, retry and fallback keys, where the documentation has them.
func policyLast(fields []field) []field {
	var head, middle, tail []field
	for _, f := range fields {
		switch f.key {
		case "failure", "retry", "fallback":
			middle = append(middle, f)
		case "shadow", "routes":
			tail = append(tail, f)
		default:
			head = append(head, f)
		}
	}
	return append(append(head, middle...), tail...)
}

// join appends a key to a path. A key that is not plain is quoted, so that a
// dot in it is not taken for a level.
func join(path, key string) string {
	plain := key != ""
	for _, c := range key {
		if c != '_' && c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			plain = false
		}
	}
	switch {
	case !plain:
		return path + "[" + quote(key) + "]"
	case path == "":
		return key
	}
	return path + "." + key
}

// quote quotes a text for a message, shortened.
func quote(s string) string {
	const most = 60
	if len(s) > most {
		cut := most
		for cut > 0 && s[cut]&0xC0 == 0x80 {
			cut--
		}
		return strconv.Quote(s[:cut] + "…")
	}
	return strconv.Quote(s)
}

// item appends a list index to a path.
func item(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
