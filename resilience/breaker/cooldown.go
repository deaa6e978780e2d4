package breaker

import (
	"math"
	"time"
)

// longestCooldown keeps the growth and its spread inside a time.Duration.
const longestCooldown = time.Duration(math.MaxInt64 / 4)

// cooldown returns how long a circuit stays open after the given number of
// failed probes in a row: Cooldown·Factor^failedProbes, at most Backoff.Max,
// then spread by ±Jitter with r, a random number in [0,1).
func cooldown(p *Policy, failedProbes int, r float64) time.Duration {
	d := min(p.Cooldown, longestCooldown)
	if p.Backoff.Factor > 1 && d > 0 {
		d = grow(d, p.Backoff, failedProbes)
	}
	if p.Jitter > 0 {
		d = time.Duration(float64(d) * (1 + p.Jitter*(2*r-1)))
	}
	return d
}

// grow returns d·Factor^n for a positive d, at most Max. A product too large for
// a duration, infinity included, is cut as well.
func grow(d time.Duration, b Backoff, n int) time.Duration {
	limit := longestCooldown
	if b.Max > 0 {
		limit = min(limit, b.Max)
	}
	if grown := float64(d) * math.Pow(b.Factor, float64(n)); grown < float64(limit) {
		return time.Duration(grown)
	}
	return limit
}
