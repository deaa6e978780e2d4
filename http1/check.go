package http1

import (
	"errors"
	"net/http"
	"strings"
)

var (
	errMethod = errors.New("http1: the request's method is not a token; send a valid one")
	errField  = errors.New("http1: a header or trailer field of the request is not valid; send one without control characters, its name a token")
)

// check refuses what [http.Request.Write] would write, although it could be
// read as another request, or would leave out or change without a word.
func check(req *http.Request) error {
	if req.Method != "" && !IsToken(req.Method) {
		return errMethod
	}
	if !fields(req.Header) || !fields(req.Trailer) {
		return errField
	}
	return nil
}

func fields(h http.Header) bool {
	for name, values := range h {
		if !IsToken(name) {
			return false
		}
		for _, value := range values {
			if !text(value) {
				return false
			}
		}
	}
	return true
}

// IsToken reports whether s is a token (RFC 9110 §5.6.2), as methods and names
// of fields must be.
func IsToken(s string) bool {
	for i := range len(s) {
		if !tokenByte[s[i]] {
			return false
		}
	}
	return s != ""
}

// tokenByte tells the bytes of a token.
var tokenByte = func() (t [256]bool) {
	for b := range t {
		t[b] = '0' <= b && b <= '9' || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' ||
			b > 0 && b < 0x80 && strings.ContainsRune("!#$%&'*+-.^_`|~", rune(b))
	}
	return t
}()

// text reports whether s can be a field's value (RFC 9110 §5.5): it has no
// control characters but tabs.
func text(s string) bool {
	for i := range len(s) {
		if b := s[i]; b < ' ' && b != '\t' || b == 0x7f {
			return false
		}
	}
	return true
}
