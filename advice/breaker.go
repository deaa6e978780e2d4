package advice

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"sidecar/history"
)

const (
	// flaps is how many recoveries in a quarter of an hour are no recoveries: two
	// or three may be outages of their own.
	flaps = 5
	// patientCooldown is what most services need to restart.
	patientCooldown = 30 * time.Second
	// enoughProbes in a row make luck unlikely: at an even chance 1 in 8.
	enoughProbes = 3

	// relapses is how often a recovery must have failed under the returning load;
	// once or twice may be a coincidence.
	relapses = 3
	// settling is how long after the ramp an opening is still blamed on the load.
	settling = 10 * time.Second
	// soundProbes is the part of the openings that must have ended in a recovery: a
	// dependency that fails its probes too is not felled by the load.
	soundProbes = 0.75
	// longestRamp is beyond what a ramp should heal.
	longestRamp = time.Minute
)

// deciding reports whether the breaker decides at all.
func (s *subject) deciding() bool { return s.d.Breaker.Mode != "off" }

// flapping: the circuit closes after a probe, meets the same trouble and opens.
func flapping(s *subject) *Finding {
	closed, opened := s.e.Counts[history.ToClosed], s.e.Counts[history.ToOpen]
	if !s.deciding() || closed < flaps || opened < flaps || failingRecovery(s) != nil {
		return nil
	}
	b := &s.d.Breaker
	f := &Finding{
		Kind: "flapping", Severity: Warning, Title: "the circuit recovers and opens again and again",
		Evidence: fmt.Sprintf("opened %d times and closed %d times in %s; %s of %s failed",
			opened, closed, span(s.e.Window), share(s.e.Counts.Failures(), s.attempts), some(s.attempts, "attempt")),
	}
	switch limit := b.Backoff.Max; {
	case b.Cooldown < patientCooldown && (b.Backoff.Factor <= 1 || limit >= patientCooldown):
		f.Key, f.Current, f.Suggested = "breaker.cooldown", written(b.Cooldown), written(patientCooldown)
		f.Why = "The dependency needs longer than the cooldown to get well. Each early recovery costs callers the failures that open the circuit again."
	case b.Probes < enoughProbes:
		f.Key, f.Current, f.Suggested = "breaker.probes", strconv.Itoa(b.Probes), strconv.Itoa(enoughProbes)
		f.Why = "A dependency that fails some of its calls passes a single probe by luck. Several in a row tell more."
	default:
		f.Key, f.Current, f.Suggested = "breaker.backoff.factor", number(b.Backoff.Factor), "2"
		if b.Backoff.Factor >= 2 || limit < 2*b.Cooldown {
			f.Key, f.Current, f.Suggested = "breaker.probes", strconv.Itoa(b.Probes), strconv.Itoa(upCount(2*float64(b.Probes)))
		}
		f.Why = "Cooldown and probes are long already, and the circuit still closes too early."
	}
	return f
}

// failingRecovery: the dependency passes its probes and falls over as the load
// returns.
func failingRecovery(s *subject) *Finding {
	b, c := &s.d.Breaker, &s.e.Counts
	var fell []time.Duration
	for _, spell := range s.e.Spells {
		if spell.Lasted <= b.Ramp+settling {
			fell = append(fell, spell.Lasted)
		}
	}
	if !s.deciding() || len(fell) < relapses || 3*len(fell) < 2*len(s.e.Spells) ||
		float64(c[history.ToClosed]) < soundProbes*float64(c[history.ToOpen]) {
		return nil
	}
	slices.Sort(fell)
	f := &Finding{
		Kind: "failing_recovery", Severity: Warning, Title: "recovery fails as the load comes back",
		Evidence: fmt.Sprintf("%d of %d recoveries in %s ended %s to %s after the circuit had closed, with a ramp of %s",
			len(fell), len(s.e.Spells), span(s.e.Window), shown(fell[0]), shown(fell[len(fell)-1]), written(b.Ramp)),
		Key: "breaker.ramp", Current: written(b.Ramp), Suggested: written(upDuration(max(3*b.Ramp, 30*time.Second))),
		Why: "The dependency stands its probes and not its load. A longer ramp gives its caches and pools time to fill.",
	}
	n := s.d.Bulkhead.MaxConcurrent
	reached := n / 2
	middle := fell[len(fell)/2]
	if middle < b.Ramp {
		reached = int(float64(n) * middle.Seconds() / b.Ramp.Seconds())
	}
	if n > 1 && (middle < b.Ramp || b.Ramp >= longestRamp) {
		f.Key, f.Current, f.Suggested = "bulkhead.max_concurrent", strconv.Itoa(n), strconv.Itoa(downCount(float64(reached)))
		f.Why = fmt.Sprintf("The dependency stands its probes and falls over at about %d permits: give it no more.", max(1, reached))
	}
	return f
}
