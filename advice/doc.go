// Package advice says what an operator should change, from what was seen: it is
// a pure function of the running configuration and of the history's evidence.
//
// [For] looks for ten faults of a configuration. Each [Finding] names the
// numbers that were seen, the key to change and a value:
//
//	flapping           the circuit recovers and opens again and again
//	failing_recovery   it opens again whenever the full load comes back
//	blind_predicate    answers say "error", failure.statuses says "success"
//	never_decides      the window never holds min_calls
//	long_timeout       a hanging call holds its permit far longer than any answer takes
//	impatient_callers  callers give up before the sidecar does
//	retry_storm        retries add load and hardly ever help
//	too_few_permits    calls are refused while the dependency is fast
//	too_many_permits   a slow dependency could hold far more than it needs
//	hidden_outage      a fallback has answered for so long that nobody noticed
//
// Nothing is said on little evidence: each rule has a least number of calls or
// events, among the constants beside it, with the reason for it.
//
// # Sizes
//
// Sizes follow from the traffic of the last quarter of an hour, in [Sizing]:
//
//   - permits: the calls that are there at once are L = λ·W (J. D. C. Little, "A
//     Proof for the Queuing Formula L = λW", Operations Research 9, 1961), here
//     of the busiest second and the 99th percentile, plus 3·√L, since the number
//     there at one moment varies by its root (square-root staffing: S. Halfin,
//     W. Whitt, Operations Research 29, 1981), plus permits that streams hold;
//   - a queue as long as the permits, for as long as two slow calls take;
//   - attempt_timeout: twice the 99th percentile of an attempt; timeout: room for
//     every attempt, every pause and the queue;
//   - window and min_calls with which a dependency that hangs is found out within
//     ten seconds at the traffic seen;
//   - limits.max_concurrent: what all compartments add up to.
//
// A setting that fits is left alone: only what is too small, or more than twice
// too large, is mentioned. Values are rounded up to what a person would write.
// The quarter of an hour that was seen may not be the worst one of the week: the
// advice is a start.
//
// # What is not judged
//
// Evidence is of the dependency as a whole. A route's own settings are looked
// at where they could explain what was seen; the values given are for the
// dependency's own. A breaker that is off gets no advice on breakers. What was
// seen before a change of the configuration stays evidence until it is too old.
//
// # What it may import
//
// The configuration, the history, a YAML encoder and the standard library.
package advice
