// Package resilience holds the policies that keep a sick dependency from
// taking more than its own share: the circuit breaker, the bulkhead and the
// retry. It has no code of its own; this page is their common vocabulary.
//
// # Rooms
//
//	breaker    may this attempt be sent, judged by how the last ones ended?
//	bulkhead   is there room for one more call at the same time?
//	retry      may a failed attempt be repeated, and after how long?
//
// All three decide by the rules alone: they take the time as an argument, read
// no clock, start no goroutine, and know nothing of HTTP. One reading of the
// clock serves a whole stage, and tests drive them in virtual time.
//
// # Vocabulary
//
// The words below mean the same in code, configuration, log, metrics and page.
// "Not" lists words that readers of other projects may expect; they are
// avoided here because they mean different things in different places.
//
//	dependency   one downstream service with its own breaker and bulkhead.
//	             Not: backend, cluster, target.
//	upstream     the address that a dependency's attempts are sent to.
//	call         one request of the app, from arrival to the last body byte.
//	             Not: transaction, operation.
//	attempt      one try sent to the upstream. A call has one, or more with
//	             retries. Not: request, hop.
//	outcome      how an attempt ended, as the breaker hears it: success,
//	             failure, slow (beside either, or alone), or ignored.
//	failure      an outcome that speaks against the dependency. A 404 is none,
//	             and neither is a caller who left. Not: error.
//	rejection    the sidecar refuses before anything is sent. To refuse and to
//	             admit are the verbs. Not: drop, block, shed, throttle.
//	fallback     the answer given instead of the upstream's.
//	degraded     any answer that is not the upstream's own to this call.
//
//	circuit      what a breaker opens and closes.
//	closed       every attempt is admitted, and the outcomes are watched.
//	             Not: healthy, up.
//	open         every attempt is refused. Open always means refusing, never
//	             "open for business". Not: broken, tripped, blown.
//	half-open    a few probes are admitted, everything else is refused.
//	             Not: recovering, testing.
//	to trip      to go from closed to open because a rule was met.
//	window       the latest outcomes that the ratio rules look at, bounded by
//	             number or by age. Not: bucket, rolling stats.
//	run          failures in a row, uninterrupted by a success. Not: streak.
//	cooldown     how long a circuit stays open before probes are admitted.
//	             Not: timeout, sleep window, reset interval.
//	probe        an attempt admitted in half-open. Not: trial, canary,
//	             health check.
//	place        room for one probe in flight.
//	era          the time between two changes of a breaker. An outcome belongs
//	             to the era in which its attempt was admitted, and late news
//	             from an earlier era changes nothing. Not: generation, epoch.
//	forced       put open or closed by an operator until put back to automatic.
//	             Not: manual, disabled, isolated.
//	permit       leave of the breaker for one attempt; settled once.
//
//	slot         leave of the bulkhead for one running call; released once.
//	             Not: token, ticket, lease.
//	limit        how many slots may be held at present.
//	waiter       a call in the bulkhead's queue.
//	ramp         the time after a recovery during which the limit grows from
//	             one to its full size. Not: warm-up, slow start.
//
//	proposal     settings that are judged on the live calls before they are made
//	             live.
//	shadow       what runs a proposal beside the live settings and refuses
//	             nobody. Not: mirror, which would send requests twice.
//
//	retry        an attempt after the first of the same call. Not: replay.
//	backoff      the pause before a retry; also the growth of a cooldown.
//	budget       how many retries may begin, measured against calls begun.
//	jitter       a random spread, so that replicas do not act in step.
//
// # States of a circuit
//
//	                 a rule is met: trip
//	  ┌──────────┐ ──────────────────────────▶ ┌──────────┐
//	  │  closed  │                             │   open   │
//	  │  admits  │                             │ refuses  │
//	  └──────────┘                             └──────────┘
//	       ▲                                     │      ▲
//	       │                       cooldown over │      │ a probe failed,
//	       │                      (by the clock) │      │ or too many were slow
//	       │                                     ▼      │
//	       │      all probes succeeded        ┌─────────────┐
//	       └───────────────────────────────── │  half-open  │
//	                                          │ admits only │
//	                                          │   probes    │
//	                                          └─────────────┘
//
//	forced open, forced closed   from any state, by an operator
//	back to automatic            to closed, with an empty window
//	upstream changed             to closed, with an empty window
package resilience
