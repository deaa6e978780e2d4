package config

import (
	"bytes"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// mask stands for the user information of an upstream.
const mask = "xxxxx"

// Effective returns the configuration as YAML with the value of every key,
// inherited ones included, in the order of the documentation. The user
// information of an upstream is masked; without one, the result parses to an
// equal configuration (a relative body_file from the same folder).
func (c *Config) Effective() ([]byte, error) {
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(encode(reflect.ValueOf(c).Elem(), rule{})); err != nil {
		return nil, fmt.Errorf("write effective configuration: %w", err)
	}
	if err := enc.Close(); err != nil {
		return nil, fmt.Errorf("write effective configuration: %w", err)
	}
	return out.Bytes(), nil
}

// encode is the reverse of decoder.value.
func encode(v reflect.Value, r rule) *yaml.Node {
	switch x := v.Interface().(type) {
	case time.Duration:
		return plain("!!str", FormatDuration(x))
	case Window:
		if x.Calls > 0 {
			return plain("!!int", strconv.Itoa(x.Calls))
		}
		return plain("!!str", FormatDuration(x.Span))
	case StatusTerm:
		return text(x.String())
	case *url.URL:
		return text(maskURL(x))
	case []byte:
		return text(string(x))
	case Static:
		if x.BodyFile != "" {
			x.Body = nil // it is in the file
		}
		return encodeStruct(reflect.ValueOf(x))
	case Route:
		if !x.OwnFallback {
			return encodeStruct(v, "fallback") // written out, it would be the route's own
		}
	}
	switch v.Kind() {
	case reflect.Struct:
		return encodeStruct(v)
	case reflect.Pointer:
		return encode(v.Elem(), r)
	case reflect.Slice:
		return encodeList(v, r)
	case reflect.Map:
		return encodeMap(v.Interface().(map[string]string))
	case reflect.String:
		return text(v.String())
	case reflect.Bool:
		return plain("!!bool", strconv.FormatBool(v.Bool()))
	case reflect.Float64:
		return plain("", strconv.FormatFloat(v.Float(), 'f', -1, 64))
	default:
		if r.size {
			return sizeNode(v.Int())
		}
		return plain("!!int", strconv.FormatInt(v.Int(), 10))
	}
}

func encodeStruct(v reflect.Value, without ...string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for _, f := range fieldsOf(v.Type()) {
		fv := v.FieldByIndex(f.index)
		if slices.Contains(without, f.key) || fv.IsZero() && (f.rule.omitEmpty || fv.Kind() == reflect.Pointer) {
			continue
		}
		n.Content = append(n.Content, text(f.key), encode(fv, f.rule))
	}
	return n
}

func encodeList(v reflect.Value, r rule) *yaml.Node {
	n := &yaml.Node{Kind: yaml.SequenceNode}
	for i := range v.Len() {
		n.Content = append(n.Content, encode(v.Index(i), r))
	}
	if v.Len() == 0 || n.Content[0].Kind == yaml.ScalarNode {
		n.Style = yaml.FlowStyle
	}
	return n
}

func encodeMap(m map[string]string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		n.Content = append(n.Content, text(k), text(m[k]))
	}
	if len(m) == 0 {
		n.Style = yaml.FlowStyle
	}
	return n
}

func plain(tag, value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: value}
}

// text is a string; one with more than plain ASCII is quoted, so that line
// breaks and spaces at its ends survive.
func text(s string) *yaml.Node {
	n := plain("!!str", s)
	if strings.TrimSpace(s) != s || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

func sizeNode(bytes int64) *yaml.Node {
	if bytes == 0 {
		return plain("!!int", "0")
	}
	return plain("!!str", formatSize(bytes))
}

// formatSize writes a size in the largest unit that divides it.
func formatSize(bytes int64) string {
	if bytes == 0 {
		return "0"
	}
	for _, u := range sizeUnits {
		if bytes%u.bytes == 0 {
			return strconv.FormatInt(bytes/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(bytes, 10) + "B"
}

// FormatDuration writes a duration as a person does, without units that are zero:
// 10m, not 10m0s.
func FormatDuration(t time.Duration) string {
	s := t.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// maskURL writes a URL without its user information.
func maskURL(u *url.URL) string {
	if u == nil {
		return ""
	}
	if u.User == nil {
		return u.String()
	}
	masked := *u
	masked.User = url.User(mask)
	return masked.String()
}
