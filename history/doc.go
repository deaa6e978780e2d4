// Package history remembers what happened at each dependency in the last
// quarter of an hour: for the page, which draws it, and for the advice, which
// draws conclusions.
//
// A [Recorder] takes a [Reading] of each dependency once a second: cumulative
// counters, cumulative histograms and a few gauges, which others count anyway.
// It keeps their differences, so nothing here is on the path of a call, and no
// call waits for a lock of this package.
//
// # What is kept
//
// Of each dependency, at most 30 KB, whatever its traffic:
//
//   - 180 [Step]s of five seconds: calls by outcome, median and 99th percentile,
//     the worst state of the circuit, the highest gauges, the busiest second;
//   - 5 spans of three minutes, the present one included: every counter and
//     three histograms. They are the [Evidence] of the last 12 to 15 minutes;
//   - the last 16 [Spell]s: how long the circuit stayed closed after a recovery
//     before it opened again.
//
// A dependency that is no longer read is forgotten. A dependency of the same
// name that counts from 0 again is a new one, whose past goes on in the same
// record.
//
// Gauges are seen once a second: a peak between two readings is missed.
// Counters miss nothing.
//
// # Durations
//
// Histograms are logarithmic: each octave from 2^14 ns (16 µs) to 2^37 ns
// (137 s) is cut into 8 equal parts. A quantile is the middle of its bucket, at
// most 1/16 (6.3 %) off; shorter durations show as 8 µs, longer ones as 137 s.
//
// # What it may import
//
// The standard library and the breaker's states. Readings come from outside, by
// [Source].
package history
