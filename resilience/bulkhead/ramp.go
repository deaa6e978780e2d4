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
	// most span, as steps < full-1.
	elapsed, rest := mulDiv(r.steps(now, full)+1, int64(r.span), int64(full-1))
	if rest > 0 {
		elapsed++
	}
	return r.from.Add(time.Duration(elapsed))
}

// steps returns how many steps the running ramp has taken by now: the whole
// part of (full-1)·elapsed/span, which is below full-1.
func (r ramp) steps(now time.Time, full int) int64 {
	whole, _ := mulDiv(int64(full-1), int64(max(now.Sub(r.from), 0)), int64(r.span))
	return whole
}

// mulDiv returns a·b/c and the remainder. The product has 128 bits, so no
// setting overflows it; a and b must be at least 0, c above 0, and the
// quotient below 2⁶³.
func mulDiv(a, b, c int64) (whole, rest int64) {
	hi, lo := bits.Mul64(uint64(a), uint64(b)) //nolint:gosec // Not negative, see above.
	quo, rem := bits.Div64(hi, lo, uint64(c))  //nolint:gosec // Positive, see above.
	return int64(quo), int64(rem)              //nolint:gosec // Below 2⁶³, see above.
}
