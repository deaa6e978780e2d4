package config

import (
	"math"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// isScalarType reports whether a type is written as one scalar although its
// kind is a struct, slice or pointer.
func isScalarType(t reflect.Type) bool {
	switch t {
	case reflect.TypeFor[Window](), reflect.TypeFor[StatusTerm](), reflect.TypeFor[*url.URL](), reflect.TypeFor[[]byte]():
		return true
	}
	return false
}

// scalar decodes one value. On a fault v keeps what it inherited.
func (d *decoder) scalar(n *yaml.Node, v reflect.Value, path string, r rule) {
	switch p := v.Addr().Interface().(type) {
	case *time.Duration:
		d.duration(n, p, path, r)
	case *Window:
		d.window(n, p, path)
	case *StatusTerm:
		d.statusTerm(n, p, path)
	case **url.URL:
		d.upstream(n, p, path)
	case *[]byte:
		if s, ok := d.text(n, path, r); ok {
			if *p = []byte(s); s == "" {
				*p = nil
			}
		}
	case *string:
		d.str(n, p, path, r)
	case *bool:
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" {
			d.wrongType(n, path, "true or false")
			return
		}
		*p = strings.EqualFold(n.Value, "true")
	case *int64:
		d.size(n, p, path)
	case *int:
		d.integer(n, p, path, r)
	case *float64:
		d.number(n, p, path, r)
	default:
		panic("config: no decoder for " + v.Type().String())
	}
}

// text takes a string, or with the rule "any" every scalar as it is written.
func (d *decoder) text(n *yaml.Node, path string, r rule) (string, bool) {
	if n.Kind == yaml.ScalarNode {
		switch tag := n.ShortTag(); {
		case tag == "!!str", d.external,
			(r.any || r.conditions) && slices.Contains([]string{"!!int", "!!float", "!!bool", "!!timestamp"}, tag):
			return n.Value, true
		case tag == "!!int", tag == "!!float", tag == "!!bool", tag == "!!timestamp":
			d.fault(n, path, "must be a text, got %s; put it in quotes", describe(n))
			return "", false
		}
	}
	d.wrongType(n, path, "a text")
	return "", false
}

func (d *decoder) str(n *yaml.Node, p *string, path string, r rule) {
	s, ok := d.text(n, path, r)
	switch {
	case !ok:
		return
	case r.oneOf != nil && !slices.Contains(r.oneOf, s):
		d.fault(n, path, "must be one of %s, got %s", strings.Join(r.oneOf, ", "), describe(n))
		return
	case r.grpc && !slices.Contains(grpcNames[1:], s):
		d.fault(n, path, "must be a gRPC status name such as UNAVAILABLE, got %s", describe(n))
		return
	case r.conditions && !slices.Contains(events, s):
		if _, ok := parseTerm(s); !ok {
			d.fault(n, path, "must be connect, reset, timeout or an HTTP status such as 502, 500-599 or !501, got %s", describe(n))
			return
		}
	}
	*p = s
}

// integer takes a whole number in plain decimal digits.
func (d *decoder) integer(n *yaml.Node, p *int, path string, r rule) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" {
		d.wrongType(n, path, "a whole number")
		return
	}
	i, ok := decimal(n.Value)
	switch {
	case !ok:
		d.wrongType(n, path, "a whole number in plain digits, without a leading zero")
	case float64(i) < r.min && r.max == 1e9:
		d.fault(n, path, "must be at least %v, got %s", r.min, describe(n))
	case float64(i) < r.min || float64(i) > r.max:
		d.fault(n, path, "must be between %v and %s, got %s", r.min, strconv.FormatFloat(r.max, 'f', -1, 64), describe(n))
	default:
		*p = i
	}
}

// decimal parses a whole number without leading zeros, which YAML would read
// as octal. A number beyond the range of int becomes the nearest one.
func decimal(s string) (int, bool) {
	digits := strings.TrimPrefix(s, "-")
	if digits == "" || len(digits) > 1 && digits[0] == '0' || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	i, _ := strconv.Atoi(s) // only its range can fail now
	return i, true
}

func (d *decoder) number(n *yaml.Node, p *float64, path string, r rule) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" && n.ShortTag() != "!!float" {
		d.wrongType(n, path, "a number")
		return
	}
	f, err := strconv.ParseFloat(n.Value, 64)
	switch {
	case err != nil || math.IsNaN(f) || math.IsInf(f, 0):
		d.wrongType(n, path, "a number in plain digits")
	case r.ratio && (f < 0 || f > 1):
		d.fault(n, path, "must be between 0 and 1, got %s", describe(n))
	case !r.ratio && f < r.min:
		d.fault(n, path, "must be at least %v, got %s", r.min, describe(n))
	default:
		*p = f + 0 // makes -0 a plain 0
	}
}

// duration takes a number with a unit.
func (d *decoder) duration(n *yaml.Node, p *time.Duration, path string, r rule) {
	if n.Kind != yaml.ScalarNode {
		d.wrongType(n, path, "a duration with a unit such as 500ms")
		return
	}
	t, err := time.ParseDuration(n.Value)
	switch {
	case strings.TrimLeft(n.Value, "+-") == "0":
		d.fault(n, path, "must be a duration with a unit such as 500ms, got %s; write 0s", n.Value)
	case err != nil && isNumber(n.Value):
		d.fault(n, path, "must be a duration with a unit such as 500ms, got %s", describe(n))
	case err != nil && hasSpace(n.Value) && isDuration(strings.Join(strings.Fields(n.Value), "")):
		d.fault(n, path, "must be a duration without a space, such as %s, got %s", strings.Join(strings.Fields(n.Value), ""), describe(n))
	case err != nil && isDuration(strings.ToLower(n.Value)):
		d.fault(n, path, "must be a duration with a lower-case unit, such as %s, got %s", strings.ToLower(n.Value), describe(n))
	case err != nil:
		d.fault(n, path, "must be a duration such as 500ms, 1.5s or 10m (units ns, us, ms, s, m, h), got %s", describe(n))
	case t < 0 || n.Value[0] == '-':
		d.fault(n, path, "must not be negative, got %s", n.Value)
	case t == 0 && r.positive:
		d.fault(n, path, "must be longer than 0s, got %s", n.Value)
	default:
		*p = t
	}
}

func isNumber(s string) bool { _, err := strconv.ParseFloat(s, 64); return err == nil }

func isDuration(s string) bool { _, err := time.ParseDuration(s); return err == nil }

func hasSpace(s string) bool { return strings.ContainsFunc(s, unicode.IsSpace) }

// sizeUnits are the units of a size, the larger ones first.
var sizeUnits = []struct {
	name  string
	bytes int64
}{
	{"GiB", 1 << 30}, {"MiB", mib}, {"KiB", kib}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"B", 1},
}

// size takes a whole number with a unit, or 0.
func (d *decoder) size(n *yaml.Node, p *int64, path string) {
	const want = "a size with a unit such as 64KiB or 10MB (B, KiB, MiB, GiB, KB, MB, GB)"
	if n.Kind != yaml.ScalarNode {
		d.wrongType(n, path, want)
		return
	}
	if n.Value == "0" {
		*p = 0
		return
	}
	for _, u := range sizeUnits {
		digits, ok := strings.CutSuffix(n.Value, u.name)
		if !ok {
			continue
		}
		i, ok := decimal(digits)
		switch {
		case !ok:
			d.wrongType(n, path, "a size that is a whole number with its unit, without a space, such as 64KiB")
		case i < 0 || digits[0] == '-':
			d.fault(n, path, "must not be negative, got %s", n.Value)
		case int64(i) > math.MaxInt64/u.bytes:
			d.fault(n, path, "must be less than 8 EiB, got %s", n.Value)
		default:
			*p = int64(i) * u.bytes
		}
		return
	}
	d.wrongType(n, path, want)
}

// mostWindow is the largest window, in calls.
const mostWindow = 100_000

// window takes a number of calls or a duration.
func (d *decoder) window(n *yaml.Node, p *Window, path string) {
	if n.Kind != yaml.ScalarNode {
		d.wrongType(n, path, "a number of calls such as 20 or a duration such as 30s")
		return
	}
	if n.ShortTag() == "!!int" {
		calls, ok := decimal(n.Value)
		if !ok || calls < 1 || calls > mostWindow {
			d.fault(n, path, "must be a number of calls between 1 and %d, or a duration such as 30s, got %s", mostWindow, describe(n))
			return
		}
		*p = Window{Calls: calls}
		return
	}
	var span time.Duration
	d.duration(n, &span, path, rule{positive: true})
	if span > 0 {
		*p = Window{Span: span}
	}
}
