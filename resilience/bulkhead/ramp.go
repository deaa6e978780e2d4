package bulkhead

import (
	"math/bits"
	"time"
)

// ramp is the growth of the limit after a recovery at from, over span. The
// zero value is no ramp. Its arithmetic is exact in nanoseconds.
type ramp struct {
	from time.Time
	span time.Duration
}

// running reports whether a ramp has begun and was not yet found to be over.
func (r ramp) running() bool { return !r.from.IsZero() }

// over reports whether a ramp has begun and ended by now.
func (r ramp) over(now time.Time) bool {
	return r.running() && max(now.Sub(r.from), 0) >= r.span
}

// limit returns floor(1 + (full-1)·elapsed/span), at most full: how many
// calls may run at now. It is full without a ramp.
func (r ramp) limit(now time.Time, full int) int {
	if !r.running() || r.over(now) {
		return full
	}
	return 1 + int(r.steps(now, full))
}

// next returns the first moment after now at which the limit is higher, the
// zero time if there is none.
func (r ramp) next(now time.Time, full int) time.Time {
	if !r.running() || r.over(now) || full == 1 {
		return time.Time{}
	}
	// The smallest elapsed with (full-1)·elapsed ≥ (steps+1)·span. It is at
	// most span, as steps < full-1, so the quotient fits.
	hi, lo := bits.Mul64(r.steps(now, full)+1, uint64(r.span))
	elapsed, rest := bits.Div64(hi, lo, uint64(full-1))
	if rest > 0 {
		elapsed++
	}
	return r.from.Add(time.Duration(elapsed))
}

// steps returns how many steps the running ramp has taken by now: the whole
// part of (full-1)·elapsed/span, which is below full-1. The product has 128
// bits, so no setting overflows it.
func (r ramp) steps(now time.Time, full int) uint64 {
	elapsed := max(now.Sub(r.from), 0)
	hi, lo := bits.Mul64(uint64(full-1), uint64(elapsed))
	whole, _ := bits.Div64(hi, lo, uint64(r.span))
	return whole
}
