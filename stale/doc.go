// Package stale keeps copies of good answers for the time when there is none.
// It is a cache that is read on failure only: while a dependency answers, its
// answers pass and their copies are renewed; once it does not, the copy stands
// in, marked as one.
//
// # What is kept
//
// Answers to GET with status 200, 203 or 204 that came to a clean end, as far
// as RFC 9111 §3 lets a shared cache keep them. Not kept are answers
//
//   - with no-store, private or no-cache, or to a request with no-store;
//   - with Set-Cookie, or Vary: *;
//   - to a request with Authorization or Cookie, unless the answer says public
//     or s-maxage (§3.5), or the operator keys copies by that header (vary_by);
//   - larger than max_object_bytes, and parts (206); the proxy asks for no event stream.
//
// The body is noted as it streams past and let go the moment it grows too
// large. A slow old answer never replaces a newer one (§4), a failing one never
// replaces any.
//
// # Which copy fits
//
// The target with its query, and the values of the request headers that Vary
// (§4.1) or vary_by names. Values are kept as a keyed hash alone, so a store
// that leaks shows no token. Beyond that, a caller gets no content coding it
// did not list in Accept-Encoding and no language that its Accept-Language
// leaves out, whatever Vary says; and a caller with credentials only a copy
// that is keyed by them or said to be public.
//
// # When it may be shown
//
// Never older than the operator's max_age, nor further past fresh than the
// answer's own stale-if-error (RFC 5861 §4); with must-revalidate,
// proxy-revalidate or s-maxage only while explicitly fresh (§4.2.4). The
// caller may refuse: no-cache, and the bounds of max-age, min-fresh, max-stale
// and stale-if-error in its own Cache-Control hold (§5.2.1).
//
// # When it goes
//
// After a successful unsafe method on its target, or on the one that this
// answer's Location or Content-Location names (§4.4); when the dependency says
// that the target is gone (404, 410); when others need its place. An answer
// that was asked for before such a change is not kept after it. A 304 to a
// caller's own conditional request renews the copy that it confirms (§4.3.4).
//
// # Fair use
//
// All dependencies share max_bytes, counted with keys, headers and overhead.
// Each one with a stale fallback has an equal share that no other can take. It
// may borrow what the others leave free, and gives it back, coldest copies
// first, as they need it.
//
// # On disk
//
// With a directory, copies survive a restart. They are written in the
// background, a file each, put in place by a rename and signed with the
// directory's key; a file that is torn, altered or not ours is skipped with a
// warning. What an unsafe method makes invalid is gone from the disk before
// the caller sees that method's answer.
package stale
