package config

import (
	"encoding/json"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// The patterns are written in what ECMA-262 and RE2 have in common.
const (
	port       = `(6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|[1-9][0-9]{0,3})`
	duration   = `^\+?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`
	positive   = `[1-9]` // somewhere in a duration
	statusTerm = `!?[1-5][0-9]{2}(-[1-5][0-9]{2})?`
	upstream   = `^[Hh][Tt][Tt][Pp][Ss]?://([^/?#]*@)?(\[[^/?#@]+\]|[^/?#@:]+)(:` + port + `)?(/[^?#]*)?$`
	// headerValue has no control characters and no space at its ends.
	headerValue = `^([^\x00- \x7f]([^\x00-\x08\x0a-\x1f\x7f]*[^\x00- \x7f])?)?$`
)

// forms are the patterns that a rule's "form" can name. They are never stricter
// than check.go and listen.go.
var forms = map[string]string{
	"address":  `^([-_.0-9A-Za-z]*|\[[-_.:0-9A-Za-z]*(%[^\]]+)?\]):` + port + `$`,
	"loopback": `^([Ll][Oo][Cc][Aa][Ll][Hh][Oo][Ss][Tt]|127\.[0-9.]+|\[[-_.:0-9A-Za-z]*(%[^\]]+)?\]):` + port + `$`,
	"name":     `^[^/?#]+$`,
	"header":   `^[-!#$%&'*+.^_|~0-9A-Za-z` + "`" + `]+$`,
	"method":   `^[-!#$%&'*+.^_|~0-9A-Z` + "`" + `]+$`,
	"path":     `^/[^?#]*$`,
}

// definitions are the values that many keys have in common.
func definitions() properties {
	text := oneOrMore{"string"}
	var units []string
	for _, u := range sizeUnits {
		units = append(units, u.name)
	}
	times, sizes := []string{"250ms", "1.5s", "1h30m"}, []string{"64KiB", "10MB"}
	all := properties{
		{"duration", &schema{Type: text, Pattern: duration, Examples: times}},
		{"positive_duration", &schema{Type: text, Pattern: duration, AllOf: []*schema{{Pattern: positive}}, Examples: times}},
		{"size", &schema{
			Type: oneOrMore{"string", "integer"}, Minimum: new(0.0), Maximum: new(0.0), // as a number only 0
			Pattern: `^(0|(0|[1-9][0-9]*)(` + strings.Join(units, "|") + `))$`, Examples: sizes,
		}},
	}
	for _, name := range slices.Sorted(maps.Keys(forms)) {
		s := &schema{Type: text, Pattern: forms[name]}
		if name == "name" {
			s.MaxLength = mostName
		}
		all = append(all, property{name, s})
	}
	return all
}

// definition returns the reference to one of the [definitions].
func definition(name string) string { return "#/$defs/" + name }

// reservedNames matches the headers that a static answer must not set, in any
// case.
func reservedNames() string {
	var b strings.Builder
	for _, c := range strings.Join(slices.Sorted(maps.Keys(reserved)), "|") {
		if unicode.IsLetter(c) {
			b.WriteString("[" + string(unicode.ToUpper(c)) + string(unicode.ToLower(c)) + "]")
			continue
		}
		b.WriteRune(c)
	}
	return "^(" + b.String() + ")$"
}

// scalarSchema describes a value that is written as one scalar.
func scalarSchema(t reflect.Type, r rule) *schema {
	text := oneOrMore{"string"}
	switch t {
	case reflect.TypeFor[time.Duration]():
		s := &schema{Ref: definition("duration"), Description: " (a number with a unit: ns, us, ms, s, m, h)"}
		if r.positive {
			s.Ref = definition("positive_duration")
		}
		return s
	case reflect.TypeFor[Window]():
		return &schema{
			Type: oneOrMore{"integer", "string"}, Minimum: new(1.0), Maximum: new(float64(mostWindow)),
			Pattern: duration, AllOf: []*schema{{Pattern: positive}},
		}
	case reflect.TypeFor[StatusTerm]():
		return &schema{Type: oneOrMore{"integer", "string"}, Minimum: new(100.0), Maximum: new(599.0), Pattern: "^" + statusTerm + "$"}
	case reflect.TypeFor[*url.URL]():
		return &schema{Type: text, Pattern: upstream}
	case reflect.TypeFor[[]byte]():
		return &schema{Type: text}
	}
	switch t.Kind() {
	case reflect.String:
		return textSchema(r)
	case reflect.Bool:
		return &schema{Type: oneOrMore{"boolean"}}
	case reflect.Float64:
		s := &schema{Type: oneOrMore{"number"}}
		if r.ratio {
			s.Minimum, s.Maximum = new(0.0), new(1.0)
		} else {
			s.Minimum = &r.min
		}
		return s
	case reflect.Int:
		return &schema{Type: oneOrMore{"integer"}, Minimum: &r.min, Maximum: &r.max}
	case reflect.Int64:
		return &schema{Ref: definition("size"), Description: " (a whole number with a unit: B, KiB, MiB, GiB, KB, MB, GB; or 0)"}
	default:
		panic("config: no schema for " + t.String())
	}
}

func textSchema(r rule) *schema {
	s := &schema{Type: oneOrMore{"string"}}
	switch {
	case r.form == "header":
		return &schema{Ref: definition(r.form), Not: &schema{Const: "*"}}
	case r.form != "":
		return &schema{Ref: definition(r.form)}
	case r.grpc:
		s.Enum = anys(grpcNames[1:])
	case r.conditions:
		s.Type = oneOrMore{"string", "integer"}
		s.Minimum, s.Maximum = new(100.0), new(599.0)
		s.Pattern = "^(" + strings.Join(events, "|") + "|" + statusTerm + ")$"
	case r.oneOf != nil:
		s.Enum = anys(r.oneOf)
	}
	if r.any && r.oneOf != nil {
		s.Type = oneOrMore{"string", "number"}
		for _, word := range r.oneOf {
			if _, err := strconv.ParseFloat(word, 64); err == nil {
				s.Enum = append(s.Enum, json.Number(word))
			}
		}
	}
	return s
}

// constrain adds what check.go demands between the keys of one mapping.
func constrain(s *schema, t reflect.Type) {
	switch t {
	case reflect.TypeFor[Dependency]():
		if s.Required == nil {
			return // the defaults
		}
		remote := &schema{Required: []string{"allow_remote"}, Properties: properties{{"allow_remote", &schema{Const: true}}}}
		local := &schema{Properties: properties{{"listen", &schema{Ref: definition("loopback")}}}}
		s.AnyOf = []*schema{remote, local}
		s.AllOf = []*schema{{Not: spoken("h2", "[Hh][Tt][Tt][Pp]")}, {Not: spoken("h2c", "[Hh][Tt][Tt][Pp][Ss]")}}
	case reflect.TypeFor[Shadow]():
		s.MinProperties = 1
	case reflect.TypeFor[Fallback]():
		s.MinProperties, s.MaxProperties = 1, 1
	case reflect.TypeFor[Static]():
		s.Not = &schema{Required: []string{"body", "body_file"}, Properties: properties{{"body_file", &schema{MinLength: 1}}}}
	case reflect.TypeFor[Match]():
		methods := &schema{Required: []string{"methods"}, Properties: properties{{"methods", &schema{MinItems: 1}}}}
		s.AnyOf = []*schema{methods, {Required: []string{"path"}}, {Required: []string{"path_prefix"}}}
		s.Not = &schema{Required: []string{"path", "path_prefix"}}
	}
}

// spoken matches a dependency with this protocol and a scheme of the upstream.
func spoken(protocol, scheme string) *schema {
	return &schema{
		Required:   []string{"protocol"},
		Properties: properties{{"protocol", &schema{Const: protocol}}, {"upstream", &schema{Pattern: "^" + scheme + ":"}}},
	}
}

func anys(words []string) []any {
	all := make([]any, len(words))
	for i, w := range words {
		all[i] = w
	}
	return all
}

// asJSON turns what [encode] made into what JSON has for it.
func asJSON(n *yaml.Node) any {
	switch {
	case n.Kind == yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, e := range n.Content {
			list[i] = asJSON(e)
		}
		return list
	case n.Tag == "!!bool":
		return n.Value == "true"
	case n.Tag == "!!str":
		return n.Value
	}
	return json.Number(n.Value)
}
