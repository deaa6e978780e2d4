package config

import (
	"fmt"
	"net/http"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// check looks at a struct that was just decoded for faults between its own
// keys. Values that may come from another level are compared in validate.go.
func (d *decoder) check(v reflect.Value, path string) {
	switch p := v.Addr().Interface().(type) {
	case *Fallback:
		if (p.Stale == nil) == (p.Static == nil) && !d.faulty(path) {
			d.faultAt(d.find(path), path, "must have exactly one of stale and static")
		}
	case *Stale:
		d.checkVaryBy(p, join(path, "vary_by"))
	case *Static:
		d.checkHeaders(p, join(path, "headers"))
		d.checkBody(p, path)
	case *Match:
		d.checkMatch(p, path)
	case *TLS:
		d.resolveFiles(p, path)
	}
}

// checkVaryBy makes the names canonical.
func (d *decoder) checkVaryBy(s *Stale, path string) {
	for i, name := range s.VaryBy {
		at := item(path, i)
		canonical := http.CanonicalHeaderKey(name)
		switch {
		case !isToken(name) || name == "*":
			d.faultAt(d.find(at), at, "must be the name of a request header, such as Authorization")
		case slices.Contains(s.VaryBy[:i], canonical):
			d.faultAt(d.find(at), at, "duplicate header (case is ignored)")
		}
		s.VaryBy[i] = canonical
	}
}

// reserved are the response headers that the sidecar sets itself: the framing
// and the connection (RFC 9110 §7.6.1, RFC 9112 §6), and what tells how an
// answer was made.
var reserved = map[string]bool{
	"Connection": true, "Content-Length": true, "Keep-Alive": true, "Proxy-Connection": true, "Te": true,
	"Trailer": true, "Transfer-Encoding": true, "Upgrade": true, "Proxy-Status": true, "Sidecar-Degraded": true,
}

func (d *decoder) checkHeaders(s *Static, path string) {
	first := make(map[string]place)
	names := make([]string, 0, len(s.Headers))
	for name := range s.Headers {
		names = append(names, name)
	}
	d.byPlace(path, names)
	for _, name := range names {
		at := join(path, name)
		p, folded := d.find(at), strings.ToLower(name)
		value := s.Headers[name]
		switch earlier, again := first[folded]; {
		case !isToken(name):
			d.faultAt(p.ofKey(), at, "must be a header name (letters, digits and !#$%%&'*+-.^_`|~)")
		case reserved[http.CanonicalHeaderKey(name)]:
			d.faultAt(p.ofKey(), at, "is set by the sidecar; leave it out")
		case again:
			d.faultAt(p.ofKey(), at, "duplicate header, first set in line %d (case is ignored)", earlier.line)
		case strings.ContainsFunc(value, isControl):
			d.faultAt(p, at, "must have no control characters or line breaks in its value")
		case strings.TrimSpace(value) != value:
			d.faultAt(p, at, "must have no space at the ends of its value")
		}
		if _, ok := first[folded]; !ok {
			first[folded] = p
		}
	}
}

// isToken reports whether s is a token (RFC 9110 §5.6.2).
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// isControl reports what a header value must not hold (RFC 9110 §5.5); a tab
// is permitted.
func isControl(r rune) bool { return r != '\t' && (r < ' ' || r == 0x7f) }

// mostBody is the largest body file, in bytes.
const mostBody = mib

func (d *decoder) checkBody(s *Static, path string) {
	if s.BodyFile == "" {
		return
	}
	at := join(path, "body_file")
	if _, ok := d.set[join(path, "body")]; ok {
		d.faultAt(d.find(at), at, "excludes body; leave one of them out")
		return
	}
	file := s.BodyFile
	if !filepath.IsAbs(file) {
		file = filepath.Join(d.dir, file)
	}
	body, err := d.intake.read(file, mostBody)
	if err != nil {
		d.faultAt(d.find(at), at, "must be a readable file: %v", err)
		return
	}
	s.Body = body
}

func (d *decoder) checkMatch(m *Match, path string) {
	if d.faulty(path) {
		return
	}
	for i, method := range m.Methods {
		at := item(join(path, "methods"), i)
		upper := strings.ToUpper(method)
		switch {
		case !isToken(method):
			d.faultAt(d.find(at), at, "must be an HTTP method such as POST, got %s", quote(method))
		case method != upper:
			d.faultAt(d.find(at), at, "must be in upper case (%s), methods are case-sensitive; got %s", upper, quote(method))
		}
	}
	d.checkPath(m.Path, join(path, "path"))
	d.checkPath(m.PathPrefix, join(path, "path_prefix"))
	switch {
	case m.Path != "" && m.PathPrefix != "":
		d.faultAt(d.find(join(path, "path_prefix")), join(path, "path_prefix"), "excludes path; leave one of them out")
	case m.Path == "" && m.PathPrefix == "" && len(m.Methods) == 0 && !d.faulty(path):
		d.faultAt(d.find(path), path, "must have methods, path or path_prefix")
	}
}

func (d *decoder) checkPath(value, at string) {
	p, ok := d.set[at]
	switch {
	case !ok:
	case !strings.HasPrefix(value, "/"):
		d.faultAt(p, at, "must begin with /, got %s", quote(value))
	case strings.ContainsAny(value, "?#"):
		d.faultAt(p, at, "must be a path without query (?) and fragment (#), got %s", quote(value))
	}
}

// mostName is the length of a dependency's name, in bytes.
const mostName = 128

// nameFault says what is wrong with a dependency's name; it becomes a label, a
// log field and one element of an admin path.
func nameFault(name string) string {
	switch {
	case name == "":
		return "must not be empty"
	case len(name) > mostName:
		return fmt.Sprintf("must be at most %d bytes long, got %d", mostName, len(name))
	case strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "must have printable characters only, got " + quote(name)
	case strings.ContainsAny(name, "/?#"):
		return "must not have / ? or #, it is part of an admin path; got " + quote(name)
	case name == "." || name == "..":
		return "must not be . or .., it is part of an admin path"
	case strings.TrimSpace(name) != name:
		return "must have no space at its ends, got " + quote(name)
	}
	return ""
}
