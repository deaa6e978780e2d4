// Package admin is the sidecar's own web server: a status page, an API to read
// state and to control it, and the addresses that Prometheus and Kubernetes
// ask. [New] serves the admin listener, [NewMetrics] the metrics listener,
// which is read-only and may be reached from other machines.
//
//	GET  /                                  the status page
//	GET  /api/dependencies                  {"dependencies":[…]}, in the order of the configuration;
//	                                        "reload" too, where the last one failed
//	GET  /api/dependencies/{name}           one of them
//	POST /api/dependencies/{name}/breaker   {"force":"open"|"closed"|"auto"}; answers the dependency
//	GET  /api/dependencies/{name}/advice    what to change, and why; see package advice
//	GET  /api/history                       the last 15 minutes; ?name= for one dependency
//	GET, POST, DELETE /api/dependencies/{name}/drill   the fire drill that runs, or null
//	GET  /api/config                        the effective configuration as YAML, secrets masked
//	POST /api/reload                        answers when applied: 200, or 422 with the faults
//	GET  /api/events                        server-sent events, see below
//	GET  /metrics /livez /readyz            for machines; the only ones on the metrics listener
//	GET  /debug/pprof/                      only with Options.Pprof
//
// HEAD is answered wherever GET is. Times are RFC 3339 in UTC with
// microseconds, durations are seconds. open_until is null unless the circuit is
// open by its rules; the latencies, of about the last minute, are null when no
// call ended in it.
//
// Errors are application/problem+json (RFC 9457) with status, title and detail.
// The 422 of a reload also has "error", the whole text, and "faults", a list of
// {"file","line","key","message"} that is empty where the fault is not in the
// file, such as a port that is taken.
//
// # Events
//
// The event stream has the events transition, drill and reload as they happen, and
// status: {"at":…,"dependencies":[…],"reload":{"at","error","faults"}}, once a
// second and at once after each of the others. A status is made once for all
// streams, and only while there are any. It also is the sign of life of a stream:
// a reader to whom none comes for some seconds has lost its connection.
//
// # The page
//
// web/ holds its files as they are served, without a build step. Without scripts
// index.html is a table, made anew every 10 s. With scripts page.js replaces it
// by cards that follow the event stream: stream.js knows whether what is shown is
// current, track.js the last quarter of an hour, charts.js draws it where it is
// on the screen, order.js puts the sickest first, actions.js asks before it sends
// an order.
//
// # Fire drills
//
// A drill injects one fault into a share of the attempts at a dependency, for a
// bounded time. The body of an order has exactly one of
//
//	"latency"   a duration such as "8s": attempts wait, then go on to the upstream
//	"error"     a status, 400 to 599, answered in the upstream's place
//	"refuse"    true: the connection is refused
//
// and "for", a duration of at most 1h, and may have "share", a percentage such
// as "50%" (default "100%"). It answers {"fault","share","until","injected"}, as
// GET does and as stands in the dependency under "drill" while it runs. A new
// order replaces the drill that runs; DELETE ends it. A member that is missing,
// unknown or out of range is answered with 422 and what was expected, an order
// that the configuration does not allow (admin.drills) with 403.
//
// # What keeps others out
//
// The admin listener is bound to loopback, but so can be a browser's page from
// anywhere. Hence every request must name a loopback Host (127.0.0.0/8, [::1]
// or localhost), which a page that rebinds its DNS name cannot; and a request
// that changes something must not come from another origin, as told by
// Sec-Fetch-Site or Origin. Both are answered with 403. Bodies of writes must
// be JSON. No answer may be stored, framed or guessed at. The page alone may run
// scripts, and only its own files; Trusted Types keep it from making markup of
// text.
package admin
