package stale

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// varyNames returns the request headers that an answer depends on, canonical,
// sorted, each once.
func varyNames(h http.Header) []string {
	var names []string
	for _, line := range h["Vary"] {
		for name := range strings.SplitSeq(line, ",") {
			if name = strings.TrimSpace(name); name != "" {
				names = append(names, http.CanonicalHeaderKey(name))
			}
		}
	}
	return sorted(names)
}

func sorted(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

// variantKey is the key of the copy that fits a request among those of its
// target. Values go into it as a keyed hash alone.
func variantKey(secret []byte, target string, names []string, r *http.Request) string {
	if len(names) == 0 {
		return target
	}
	mac := hmac.New(sha256.New, secret)
	part := func(s string) {
		mac.Write(binary.AppendUvarint(nil, uint64(len(s))))
		mac.Write([]byte(s))
	}
	for _, name := range names {
		part(name)
		value, present := fieldValue(r, name)
		part(strconv.FormatBool(present))
		part(value)
	}
	return target + "\x00" + string(mac.Sum(nil))
}

// fieldValue returns a request header's lines as one value (RFC 9110 §5.2).
// White space in lists of preferences says nothing, nor does the case of
// codings and languages (RFC 9111 §4.1).
func fieldValue(r *http.Request, name string) (value string, present bool) {
	if name == "Host" {
		return r.Host, true
	}
	lines, present := r.Header[name]
	value = strings.Join(lines, ",")
	switch name {
	case "Accept-Encoding", "Accept-Language":
		value = strings.ToLower(value)
		fallthrough
	case "Accept", "Accept-Charset":
		value = strings.Map(func(c rune) rune {
			if c == ' ' || c == '\t' {
				return -1
			}
			return c
		}, value)
	}
	return value, present
}

// accepted is what a request said of codings and languages.
type accepted struct{ Encoding, Language string }

func acceptedBy(r *http.Request) (a accepted) {
	a.Encoding, _ = fieldValue(r, "Accept-Encoding")
	a.Language, _ = fieldValue(r, "Accept-Language")
	return a
}

// negotiable reports whether a copy's content coding and language are among
// those that a request asks for, whatever the answer's Vary says: what a caller
// cannot decode or read is no help. A request that says the same as the one
// that got this answer would get it again. A language is also right where it is
// more or less special than the one asked for: en and en-US.
func (c *Copy) negotiable(r *http.Request) bool {
	a := acceptedBy(r)
	return (a.Encoding == c.asked.Encoding || decodable(listed(c.header["Content-Encoding"]), preferences(a.Encoding))) &&
		(a.Language == c.asked.Language || readable(listed(c.header["Content-Language"]), preferences(a.Language)))
}

func decodable(codings []string, asked preferenceList) bool {
	return !slices.ContainsFunc(codings, func(coding string) bool {
		coding = strings.TrimPrefix(coding, "x-")
		return coding != "identity" && !asked.wants(func(a string) bool { return strings.TrimPrefix(a, "x-") == coding })
	})
}

func readable(spoken []string, asked preferenceList) bool {
	return len(asked) == 0 || len(spoken) == 0 || slices.ContainsFunc(spoken, func(tag string) bool {
		return asked.wants(func(a string) bool {
			return strings.HasPrefix(tag+"-", a+"-") || strings.HasPrefix(a+"-", tag+"-")
		})
	})
}

// listed returns the members of a list header, in lower case.
func listed(lines []string) []string {
	var all []string
	for _, line := range lines {
		for part := range strings.SplitSeq(line, ",") {
			if part = strings.ToLower(strings.TrimSpace(part)); part != "" {
				all = append(all, part)
			}
		}
	}
	return all
}

// preference is a member of Accept-Encoding or Accept-Language; refused stands
// for a weight of zero (RFC 9110 §12.4.2).
type preference struct {
	value   string
	refused bool
}

type preferenceList []preference

func preferences(value string) preferenceList {
	var all preferenceList
	for _, part := range listed([]string{value}) {
		value, parameters, _ := strings.Cut(part, ";")
		weight, weighed := strings.CutPrefix(strings.ReplaceAll(parameters, " ", ""), "q=")
		q, err := strconv.ParseFloat(weight, 64)
		all = append(all, preference{strings.TrimSpace(value), weighed && (err != nil || q <= 0)})
	}
	return all
}

// wants reports whether a value is asked for: by its name, or by *.
func (l preferenceList) wants(matches func(asked string) bool) bool {
	for _, p := range l {
		if p.value != "*" && matches(p.value) {
			return !p.refused
		}
	}
	for _, p := range l {
		if p.value == "*" {
			return !p.refused
		}
	}
	return false
}
