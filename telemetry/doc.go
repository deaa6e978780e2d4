// Package telemetry tells operators what the sidecar does: Prometheus metrics,
// a structured log, events for the admin's event stream, and the recent
// latency of each dependency. It is the only room with Prometheus collectors
// and zap fields.
//
// [Telemetry] is the proxy's Observer. Counters and histograms come from what
// the Observer hears; gauges are read from snapshots at each scrape, so they
// cannot drift from the state they show.
//
// # Metrics
//
// [Describe] lists every metric with its type and labels. Each label is a name
// from the configuration or a word of a fixed set, so what callers send never
// becomes a series. All words of a set exist at 0 from [Telemetry.Add] on,
// hence rate() and alerts see the first event. [Telemetry.Remove] takes all
// series of a dependency away; adding the name again starts at 0.
//
// The histograms have one set of bounds, from 0.5 ms to 30 s ([Buckets]): fine
// where a healthy upstream answers, coarse where only timeouts lie.
//
// The duration of an event stream or an upgraded connection says nothing about
// speed, so those calls are not in sidecar_request_duration_seconds nor in the
// recent latency; in sidecar_requests_total they are.
//
// # Log
//
// One line per entry on the writer given to [NewLogger], as JSON or as
// console text, with the UTC time under "time". The messages and their fields:
//
//   - "call", as log.access says: dependency, method, path, status, outcome,
//     attempts, duration_ms, and where they apply reason, source, age (seconds),
//     retry_denied, waited_ms, drill. Level warn for degraded and failed calls, else
//     info. The path stands without its query and is cut after 2 KiB.
//   - "breaker changed": dependency, from, to, reason, at, open_until. Level
//     warn when the circuit opens, else info. Each transition once.
//   - "drill begun through the admin listener: faults are injected", "drill
//     ended" (warn): dependency, fault, share, until, and at the end reason and
//     injected (attempts).
//   - "configuration reloaded" (info): added, removed, changed (names of
//     dependencies) and settings (such as log.level), where there are any;
//     "configuration not reloaded" (error, with the error; the running
//     configuration stays).
//   - "report" (info): dependency, calls, failed, refused, fallback, state,
//     in_use; see [Telemetry.Report].
//
// Nothing is sampled and nothing is dropped. Each line is one write, made
// before the call's goroutine goes on: a reader of the log that stops reading
// holds those calls up once the pipe is full. With log.access: off only
// transitions, drills and reloads are written.
//
// Characters that steer a terminal (C0 and C1 controls, DEL, and the invisible
// formatting characters of Unicode) are written as \uXXXX in both formats.
package telemetry
