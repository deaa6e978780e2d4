package config

import (
	"bytes"
	"encoding/json"
	"net/url"
	"reflect"
	"slices"
)

// Schema returns the JSON Schema (draft 2020-12) of the file, for editors. It
// is made of the descriptions that the decoder reads, and is never stricter
// than the decoder. What only the decoder can tell are rules between the keys
// of several levels, and how a number or text is spelt in YAML.
func Schema() []byte {
	c, d := Default(), DefaultDependency()
	root := mappingSchema(reflect.ValueOf(c).Elem(), true, nil)
	root.Type = oneOrMore{"object"} // an empty file is most likely a mistake
	root.Schema = "https://json-schema.org/draft/2020-12/schema"
	root.Title = "sidecar configuration"
	defaults := mappingSchema(reflect.ValueOf(d), true, func(f field) bool { return f.rule.own })
	defaults.Description = "values for every dependency that does not set them itself: any key of a dependency but name, listen and others that are its own"
	root.Definitions = definitions()
	root.Properties = slices.Insert(root.Properties, len(root.Properties)-1, property{"defaults", defaults})
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(root); err != nil {
		panic(err) // only for a value that JSON cannot hold
	}
	return out.Bytes()
}

// schema is what one value must satisfy.
type schema struct {
	Schema               string     `json:"$schema,omitempty"`
	Title                string     `json:"title,omitempty"`
	Description          string     `json:"description,omitempty"`
	Ref                  string     `json:"$ref,omitempty"`
	Type                 oneOrMore  `json:"type,omitempty"`
	Enum                 []any      `json:"enum,omitempty"`
	Const                any        `json:"const,omitempty"`
	Pattern              string     `json:"pattern,omitempty"`
	MinLength            int        `json:"minLength,omitempty"`
	MaxLength            int        `json:"maxLength,omitempty"`
	Minimum              *float64   `json:"minimum,omitempty"`
	Maximum              *float64   `json:"maximum,omitempty"`
	Default              any        `json:"default,omitempty"`
	Examples             []string   `json:"examples,omitempty"`
	MinItems             int        `json:"minItems,omitempty"`
	Items                *schema    `json:"items,omitempty"`
	MinProperties        int        `json:"minProperties,omitempty"`
	MaxProperties        int        `json:"maxProperties,omitempty"`
	PropertyNames        *schema    `json:"propertyNames,omitempty"`
	Properties           properties `json:"properties,omitempty"`
	AdditionalProperties any        `json:"additionalProperties,omitempty"` // false or *schema
	Required             []string   `json:"required,omitempty"`
	Not                  *schema    `json:"not,omitempty"`
	AnyOf                []*schema  `json:"anyOf,omitempty"`
	AllOf                []*schema  `json:"allOf,omitempty"`
	Definitions          properties `json:"$defs,omitempty"`
}

// oneOrMore is a list that JSON shows without brackets where it has one entry.
type oneOrMore []string

// MarshalJSON implements [encoding/json.Marshaler].
func (o oneOrMore) MarshalJSON() ([]byte, error) {
	if len(o) == 1 {
		return json.Marshal(o[0])
	}
	return json.Marshal([]string(o))
}

type property struct {
	key   string
	value *schema
}

// properties is a JSON object that keeps the order of the documentation.
type properties []property

// MarshalJSON implements [encoding/json.Marshaler].
func (ps properties) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	separator := byte('{')
	for _, p := range ps {
		out.WriteByte(separator)
		separator = ','
		if err := enc.Encode(p.key); err != nil {
			return nil, err
		}
		out.WriteByte(':')
		if err := enc.Encode(p.value); err != nil {
			return nil, err
		}
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// mappingSchema describes a struct. known says that v holds the defaults; a
// route's, for one, are its dependency's.
func mappingSchema(v reflect.Value, known bool, except func(field) bool) *schema {
	s := &schema{AdditionalProperties: false}
	for _, f := range fieldsOf(v.Type()) {
		if except != nil && except(f) {
			continue
		}
		value := valueSchema(v.FieldByIndex(f.index), f.rule, known)
		value.Description = f.doc + value.Description
		s.Properties = append(s.Properties, property{f.key, value})
		if f.rule.required {
			s.Required = append(s.Required, f.key)
		}
	}
	s.Type = oneOrMore{"object"}
	constrain(s, v.Type())
	if s.Required == nil && s.AnyOf == nil && s.MinProperties == 0 {
		s.Type = append(s.Type, "null")
	}
	return s
}

// valueSchema describes the value of a key. Its description is what its type
// adds to the key's own.
func valueSchema(v reflect.Value, r rule, known bool) *schema {
	t := v.Type()
	var s *schema
	switch {
	case t == reflect.TypeFor[*url.URL]() || isScalarType(t):
		s = scalarSchema(t, r)
	case t.Kind() == reflect.Struct:
		return mappingSchema(v, known, nil)
	case t.Kind() == reflect.Pointer:
		inner, known := prefilled(t.Elem())
		s = mappingSchema(inner.Elem(), known, nil)
		s.Type = oneOrMore{"object"}
		return s
	case t.Kind() == reflect.Slice:
		s = &schema{Type: oneOrMore{"array"}, Items: entrySchema(t.Elem(), r)}
	case t.Kind() == reflect.Map:
		s = &schema{
			Type:                 oneOrMore{"object"},
			PropertyNames:        &schema{Ref: definition("header"), Not: &schema{Pattern: reservedNames()}},
			AdditionalProperties: &schema{Type: oneOrMore{"string", "number", "boolean"}, Pattern: headerValue},
		}
	default:
		s = scalarSchema(t, r)
	}
	if known && !absent(v, r) {
		s.Default = asJSON(encode(v, r))
	}
	return s
}

// entrySchema describes the entries of a list. Dependencies begin with the
// defaults; what a route leaves out is its dependency's.
func entrySchema(t reflect.Type, r rule) *schema {
	entry := reflect.New(t).Elem()
	if t == reflect.TypeFor[Dependency]() {
		entry.Set(reflect.ValueOf(DefaultDependency()))
		return mappingSchema(entry, true, nil)
	}
	r.omitEmpty = false
	return valueSchema(entry, r, false)
}
