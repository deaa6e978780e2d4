package stale

import (
	"net/http"
	"slices"
)

// Skip says why an answer was not kept.
type Skip int

// The reasons that are counted. What no copy is expected of, such as a part or a
// refusal, is not.
const (
	SkipDirective   Skip = iota // no-store, private or no-cache
	SkipVary                    // Vary: *
	SkipSetCookie               // Set-Cookie
	SkipCredentials             // the request had Authorization or Cookie, and the answer is not public
	SkipTooLarge                // above max_object_bytes
	SkipIncomplete              // the body did not come to its end
	SkipInvalidated             // an unsafe method changed the target while the answer was on its way
	unasked                     // not counted
	none                        // kept
)

// SkipNames are the reasons as metrics name them, in the order of their values.
var SkipNames = []string{"directive", "vary", "set_cookie", "credentials", "too_large", "incomplete", "invalidated"}

// storable reports whether an answer to a GET may be kept for every later
// caller of the same target and the same values of varyBy; none if so, and
// else why not.
func storable(req, header http.Header, status int, varyBy []string) Skip {
	d := parseDirectives(header["Cache-Control"])
	switch {
	case status != http.StatusOK && status != http.StatusNonAuthoritativeInfo && status != http.StatusNoContent,
		parseDirectives(req["Cache-Control"]).has("no-store"):
		return unasked
	case d.has("no-store", "private", "no-cache"):
		return SkipDirective
	case slices.Contains(varyNames(header), "*"):
		return SkipVary
	case len(header["Set-Cookie"]) > 0:
		return SkipSetCookie
	case hasCredentials(req, varyBy) && !shared(d):
		return SkipCredentials
	}
	return none
}

// shared reports whether an answer is meant for callers with credentials too
// (RFC 9111 §3.5).
func shared(d directives) bool { return d.has("public", "s-maxage") }

// hasCredentials reports whether a request has credentials that are not among
// the headers by which its copies are kept apart.
func hasCredentials(req http.Header, keyed []string) bool {
	for _, name := range []string{"Authorization", "Cookie"} {
		if req[name] != nil && !slices.Contains(keyed, name) {
			return true
		}
	}
	return false
}
