// Package proxy carries calls from an app to its dependencies: for each
// dependency one [Dependency], an [net/http.Handler] around an
// [net/http/httputil.ReverseProxy].
//
// # Life of a call
//
// [Dependency.ServeHTTP] is the whole path, in one function:
//
//	route → breaker → bulkhead → deadline → [ retry: attempt → attempt … ] → answer
//	             ↘ every refusal and every failure → one fallback path ↗
//
// A call reads the settings once, at its arrival, and keeps them to its end.
// The breaker gives a permit for one attempt; the bulkhead gives a slot for the
// whole call, which waits in its queue if it must. The request then enters the
// ReverseProxy, whose transport is the retry stage: it makes attempts, each
// with a verdict for the breaker, until one succeeds or no other would be
// right. A response that is about to go out passes modifyResponse; what brings
// no response passes handleError. Both lead to the one fallback path.
//
// # Verdicts
//
// A failure in the status line is told to the breaker at the headers, a success
// when the body has ended. An event stream and an upgraded connection are
// judged by their headers at once, a probe at the latest attempt_timeout after
// its headers. A caller that leaves, stops sending or stops reading is never
// the upstream's fault; if it had waited slow_call.after for the headers by
// then, the call counts as slow.
//
// # Deadlines
//
// timeout bounds the call from arrival to the last byte, for a caller that
// does not read, too. attempt_timeout bounds an attempt from the moment its
// request body is sent up to its response headers. Event streams and upgraded
// connections leave both at their headers; idle_timeout bounds their silence.
//
// # Shadows
//
// Proposed settings ([Shadow]) are asked about each call beside the live ones
// and hear its outcome. They refuse nobody and change nothing of the path above;
// [ShadowSnapshot] tells what they would have done.
//
// # Drills
//
// A [Drill] stands between the bulkhead and the transport and injects a fault
// into a share of the attempts. An error or a refused connection takes the
// upstream's place; latency is added before the attempt goes on, and keeps it
// back for good where attempt_timeout, the deadline or the caller does not
// outlast it. Everything behind that is the real thing: verdicts, retries and
// fallbacks. The answer says in Sidecar-Drill that a drill touched its call. A
// drill ends with its time, a changed upstream, or the process.
//
// # What the upstream sees
//
// The caller's target byte for byte after the upstream's own path, the
// caller's headers without the hop-by-hop ones, and each request as often as
// attempts are counted, but for those that a drill withheld: HTTP/1.1 without
// TLS is spoken by package http1, which re-sends nothing, and the re-sending
// that net/http's Transport does on its own is switched off in HTTP/1.1 and
// counted in HTTP/2. One thing is still done silently, since the upstream
// cannot see it: a request of which no byte was written, because a kept-alive
// connection had died, goes to the next connection.
package proxy
