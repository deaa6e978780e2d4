package main

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// span is a part of a line, in characters.
type span struct{ from, to int }

var (
	// nextKey begins another value on the same line.
	nextKey = regexp.MustCompile(`,\s*["']?[-\w]+["']?:\s`)
	// value ends what stands before a value.
	value = regexp.MustCompile(`^\s*(#+\s*)?(-\s+)*[\[{]*\s*(,?\s*["']?[-\w]+["']?:\s+)?["']?`)
	// scheme is what a URL has before its user information, an anchor included.
	scheme = regexp.MustCompile(`^(([&!]\S+\s+)+["']?)?([A-Za-z][-+.0-9A-Za-z]*:)?//`)
)

// secrets finds the parts of a line of YAML that are, or may be, the user
// information or the query of a URL. The line may be faulty in any way: whatever stands
// before an @ is hidden, from the slashes before it or from the beginning of
// the value, and an authority that ends in what is no port, since its @ may be
// on the next line.
func secrets(line string) []span {
	var found []span
	begin := 0
	for begin < len(line) {
		end := len(line)
		if next := nextKey.FindStringIndex(line[begin+1:]); next != nil {
			end = begin + 1 + next[0]
		}
		part := line[begin:end]
		for _, hidden := range []func(string) (from, to int){secret, query} {
			if from, to := hidden(part); from < to {
				at := utf8.RuneCountInString(line[:begin+from])
				found = append(found, span{at, at + utf8.RuneCountInString(part[from:to])})
			}
		}
		begin = end
	}
	return found
}

// secret finds the secret of one key and its value, in bytes.
func secret(part string) (from, to int) {
	from = len(value.FindString(part))
	before := scheme.FindString(part[from:])
	from += len(before)
	if at := strings.LastIndexByte(part, '@'); at >= 0 {
		return from, at
	}
	if before == "" {
		return 0, 0
	}
	authority := part[from:]
	if i := strings.IndexAny(authority, "/?# \t\"',}]\\"); i >= 0 && !strings.HasPrefix(authority, "[") {
		authority = authority[:i]
	}
	_, port, ok := strings.Cut(authority, ":")
	if !ok || strings.HasPrefix(authority, "[") || strings.Trim(port, "0123456789") == "" {
		return 0, 0
	}
	return from, from + len(authority)
}

// query finds the query of a URL behind its user information, in bytes.
func query(part string) (from, to int) {
	slashes := strings.Index(part, "//")
	if slashes < 0 {
		return 0, 0
	}
	behind := max(slashes, strings.LastIndexByte(part, '@'))
	mark := strings.IndexByte(part[behind:], '?')
	if mark < 0 {
		return 0, 0
	}
	from = behind + mark + 1
	if length := strings.IndexAny(part[from:], " \t\"'"); length >= 0 {
		return from, from + length
	}
	return from, len(part)
}
