package advice

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"sidecar/config"
)

const (
	// generous is how many times too large a size may be before it is mentioned.
	generous = 2
	// attemptRoom is how many 99th percentiles an attempt may take.
	attemptRoom = 2
	// shortestAttempt is the least attempt_timeout: one lost packet alone costs a
	// retransmission timeout, 1 s by RFC 6298 §2.4 and 200 ms in common systems.
	shortestAttempt = 250 * time.Millisecond
	// shortestQueue is the least queue_timeout: less is no waiting.
	shortestQueue = 50 * time.Millisecond
)

// attemptTimeout returns twice the 99th percentile of an attempt.
func (s *subject) attemptTimeout() time.Duration {
	return max(shortestAttempt, upDuration(attemptRoom*s.attemptP99))
}

// callTimeout returns room for every attempt, every pause and the queue, and
// for twice the 99th percentile of a whole call.
func (s *subject) callTimeout(attempt, queue time.Duration) time.Duration {
	r := &s.d.Retry
	all := queue + time.Duration(1+r.MaxRetries)*attempt + time.Duration(r.MaxRetries)*r.Backoff.Max
	return upDuration(max(all, attemptRoom*s.p99))
}

// queue returns the length of a queue that empties in the time of one call.
func (s *subject) queue() int { return s.permits() }

// queueTimeout returns the time of two slow calls.
func (s *subject) queueTimeout() time.Duration { return max(shortestQueue, upDuration(2*s.p99)) }

// sizing derives every size, and leaves out what fits.
func (s *subject) sizing(findings []Finding) Sizing {
	z := Sizing{PeakPerSecond: s.peak, Suggestions: []Suggestion{}}
	if s.sized {
		p99 := s.p99.Seconds()
		z.P99Seconds = &p99
	}
	permits, queue := s.sizePermits(&z)
	limit := s.sizeTimeouts(&z, queue)
	s.sizeWindow(&z, permits, limit)
	// A finding knows more of its key.
	z.Suggestions = slices.DeleteFunc(z.Suggestions, func(g Suggestion) bool {
		return slices.ContainsFunc(findings, func(f Finding) bool { return f.Key == g.Key && f.Suggested != g.Suggested })
	})
	changes := map[string]string{}
	for _, g := range z.Suggestions {
		changes[g.Key] = g.Suggested
	}
	for _, f := range findings {
		if f.Suggested != "" && changes[f.Key] == "" {
			changes[f.Key] = f.Suggested
		}
	}
	s.fit(changes)
	for i := range findings {
		if f := &findings[i]; f.Suggested != "" && patchable(f.Key) {
			f.Suggested = changes[f.Key]
		}
	}
	for i := range z.Suggestions {
		z.Suggestions[i].Suggested = changes[z.Suggestions[i].Key]
	}
	s.sizeLimit(&z, changes)
	z.Patch = s.patch(changes)
	return z
}

// suggest adds a size.
func (z *Sizing) suggest(key, current, suggested, why string) {
	if current != suggested {
		z.Suggestions = append(z.Suggestions, Suggestion{Key: key, Current: current, Suggested: suggested, Why: why})
	}
}

// sizePermits sizes the bulkhead and returns the permits and the queue_timeout
// that there will be. Permits are added only where some were missed: few calls
// take as long as the 99th percentile, so the need is overestimated.
func (s *subject) sizePermits(z *Sizing) (permits int, queue time.Duration) {
	b := &s.d.Bulkhead
	permits, queue = b.MaxConcurrent, b.QueueTimeout
	if !s.sized {
		return permits, queue
	}
	if need := s.permits(); need > permits && s.crowded && s.fast() || permits > generous*need {
		z.suggest("bulkhead.max_concurrent", strconv.Itoa(permits), strconv.Itoa(need), s.littlesLaw())
		permits = need
	}
	if b.MaxWaiting == 0 {
		return permits, 0 // no queue is a choice
	}
	if b.MaxWaiting > generous*permits || generous*b.MaxWaiting < permits {
		z.suggest("bulkhead.max_waiting", strconv.Itoa(b.MaxWaiting), strconv.Itoa(permits),
			"A queue as long as the permits empties in the time of one call.")
	}
	if q := s.queueTimeout(); b.QueueTimeout <= 0 || b.QueueTimeout > generous*generous*q || b.QueueTimeout < s.p50 {
		z.suggest("bulkhead.queue_timeout", written(b.QueueTimeout), written(q),
			fmt.Sprintf("Two calls at the 99th percentile of %s: who waits longer waits for a dependency that is sick.", shown(s.p99)))
		queue = q
	}
	return permits, queue
}

// sizeTimeouts sizes the timeouts and returns the bound that an attempt will
// have.
func (s *subject) sizeTimeouts(z *Sizing, queue time.Duration) time.Duration {
	limit, _ := bound(&s.d.Policy)
	if !s.attemptsTimed || !s.sized {
		return limit
	}
	next := s.attemptTimeout()
	if limit <= 0 || limit > generous*next || limit < next {
		z.suggest("attempt_timeout", written(s.d.AttemptTimeout), written(next),
			fmt.Sprintf("Twice the 99th percentile of an attempt, %s, and not below %s. The slowest took %s: give calls that may take longer a route.",
				shown(s.attemptP99), written(shortestAttempt), shown(s.e.Attempts.Quantile(1))))
		limit = next
	}
	whole := s.callTimeout(limit, queue)
	if t := s.d.Timeout; t <= 0 || t > generous*whole || t < whole {
		z.suggest("timeout", written(t), written(whole),
			fmt.Sprintf("Room for %s of %s, their pauses and the queue.", some(uint64(1+s.d.Retry.MaxRetries), "attempt"), written(limit))) //nolint:gosec // at least 1
	}
	return limit
}

// sizeWindow sizes the window so that a dependency that hangs is found out
// within decideWithin.
func (s *subject) sizeWindow(z *Sizing, permits int, limit time.Duration) {
	b := &s.d.Breaker
	if !s.ratioRules() || s.e.Window < leastWindow || s.e.Counts.Judged() < leastServed || b.FailureRatio <= 0 {
		return
	}
	now := s.decideIn(b.Window, permits, limit)
	if now > 0 && now <= decideWithin {
		return
	}
	hang := s.hangRate(permits, limit)
	calls := downCount((decideWithin - min(limit, decideWithin)).Seconds() * hang / b.FailureRatio)
	calls = min(max(calls, smallestWindow), largestWindow)
	next := s.decideIn(config.Window{Calls: calls}, permits, limit)
	if next == 0 || now > 0 && next >= now {
		return // no window would be faster
	}
	z.suggest("breaker.window", window(b.Window), strconv.Itoa(calls),
		fmt.Sprintf("If every call hung, %s a second would end: the circuit would open after %s instead of %s.", number(hang), shown(next), took(now)))
	if b.MinCalls > calls {
		z.suggest("breaker.min_calls", strconv.Itoa(b.MinCalls), strconv.Itoa(calls), "No more than the window holds.")
	}
}

// took is a time to decide in words.
func took(d time.Duration) string {
	if d == 0 {
		return "never"
	}
	return shown(d)
}

// window is a window as it is written.
func window(w config.Window) string {
	if w.Calls > 0 {
		return strconv.Itoa(w.Calls)
	}
	return written(w.Span)
}

// sizeLimit holds the budget of all compartments against what they add up to.
func (s *subject) sizeLimit(z *Sizing, changes map[string]string) {
	sum := 0
	for i := range s.c.Dependencies {
		sum += s.c.Dependencies[i].Bulkhead.MaxConcurrent
	}
	if n, err := strconv.Atoi(changes["bulkhead.max_concurrent"]); err == nil {
		sum += n - s.d.Bulkhead.MaxConcurrent
	}
	limit := s.c.Limits.MaxConcurrent
	if len(s.c.Dependencies) < 2 && limit == 0 || limit >= sum && limit <= generous*sum {
		return
	}
	current := ""
	if limit > 0 {
		current = strconv.Itoa(limit)
	}
	changes["limits.max_concurrent"] = strconv.Itoa(sum)
	if changes["bulkhead.max_concurrent"] == "" {
		changes["bulkhead.max_concurrent"] = strconv.Itoa(s.d.Bulkhead.MaxConcurrent) // the default may not fit
	}
	z.suggest("limits.max_concurrent", current, strconv.Itoa(sum),
		fmt.Sprintf("The permits of all %d dependencies add up to it; with it no later change lets them hold more unnoticed.", len(s.c.Dependencies)))
}
