package proxy

import (
	"net/http"
	"strconv"
	"time"
)

// timeoutHeader carries a caller's deadline in HTTP: whole milliseconds.
const timeoutHeader = "X-Request-Timeout-Ms"

// patience returns how long the caller will wait, where it says so. What
// cannot be read is passed on as it is.
func patience(r *http.Request) (d time.Duration, said bool) {
	if text := r.Header[timeoutHeader]; len(text) > 0 {
		if ms, err := strconv.ParseUint(text[0], 10, 40); err == nil {
			d, said = time.Duration(ms)*time.Millisecond, true
		}
	}
	if isGRPC(r.Header) {
		if t, ok := parseGRPCTimeout(r.Header.Get("Grpc-Timeout")); ok && (!said || t < d) {
			d, said = t, true
		}
	}
	return d, said
}

// grpcUnits are the units of grpc-timeout, coarsest first.
var grpcUnits = []struct {
	letter byte
	unit   time.Duration
}{{'H', time.Hour}, {'M', time.Minute}, {'S', time.Second}, {'m', time.Millisecond}, {'u', time.Microsecond}, {'n', time.Nanosecond}}

// parseGRPCTimeout reads a grpc-timeout: at most eight digits and a unit (gRPC
// over HTTP/2, "Timeout").
func parseGRPCTimeout(text string) (time.Duration, bool) {
	if len(text) < 2 || len(text) > 9 {
		return 0, false
	}
	n, err := strconv.ParseInt(text[:len(text)-1], 10, 64)
	if err != nil || n < 0 {
		return 0, false
	}
	for _, u := range grpcUnits {
		if u.letter == text[len(text)-1] {
			const longest = 290 * 365 * 24 * time.Hour
			if n > int64(longest/u.unit) {
				return longest, true
			}
			return time.Duration(n) * u.unit, true
		}
	}
	return 0, false
}

// formatGRPCTimeout writes a duration in the finest unit that eight digits can
// hold.
func formatGRPCTimeout(d time.Duration) string {
	for i := len(grpcUnits) - 1; i >= 0; i-- {
		if n := d / grpcUnits[i].unit; n < 1e8 {
			return strconv.FormatInt(int64(max(0, n)), 10) + string(grpcUnits[i].letter)
		}
	}
	return "99999999H"
}

// passDeadline tells the upstream what is left of the caller's patience, in
// the headers in which the caller told it.
func (c *call) passDeadline(h http.Header) {
	left := max(0, c.patience-time.Since(c.start))
	if h.Get(timeoutHeader) != "" {
		h[timeoutHeader] = []string{strconv.FormatInt(int64((left+time.Millisecond-1)/time.Millisecond), 10)}
	}
	if h.Get("Grpc-Timeout") != "" {
		h["Grpc-Timeout"] = []string{formatGRPCTimeout(left)}
	}
}

// startDeadline gives the call a context of its own that ends at its timeout,
// or when its caller's patience does.
func (c *call) startDeadline() {
	c.enterContext()
	var at, soon time.Time
	why := errTimeout
	if c.policy.Timeout > 0 {
		at = c.start.Add(c.policy.Timeout)
	}
	if c.patient && (at.IsZero() || c.patience < c.policy.Timeout) {
		at, why = c.start.Add(c.patience), errDeadline
	}
	if c.policy.AttemptTimeout > 0 {
		soon = c.start.Add(c.policy.AttemptTimeout)
	}
	c.setDeadline(at, why, soon)
}

// leaveDeadline frees a stream from the call's timeout: from its headers on
// only its silence is bounded, and its caller's patience.
func (c *call) leaveDeadline() {
	if c.patient {
		c.setDeadline(c.start.Add(c.patience), errDeadline, time.Time{})
		return
	}
	c.forgetDeadline()
}

// remaining returns the time left until the deadline; bounded is false without
// one.
func (c *call) remaining(now time.Time) (left time.Duration, bounded bool) {
	left, bounded = c.policy.Timeout, c.policy.Timeout > 0
	if c.patient && (!bounded || c.patience < left) {
		left, bounded = c.patience, true
	}
	return left - now.Sub(c.start), bounded
}

// unblockGrace is how long a copy that is not blocked has, at the deadline, to
// notice it by itself. What is still blocked after that waits for the caller.
const unblockGrace = 100 * time.Millisecond

// expire ends the call at its deadline. Whoever it was waiting for is to
// blame: a caller that stopped sending, or the upstream.
func (c *call) expire(why error) {
	c.mu.Lock()
	if c.committed && !c.ended {
		// A caller that does not read would hold its permit for ever.
		c.hurried = c.connection().SetWriteDeadline(time.Now().Add(unblockGrace)) == nil
	}
	c.mu.Unlock()
	if c.body.pending() {
		why = errStalled
	}
	c.cancel(why)
	c.body.interrupt()
}
