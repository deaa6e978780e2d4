package breaker_test

import (
	"testing"
	"time"

	"sidecar/resilience/breaker"
)

// Short names for the scripts.
const (
	closed   = breaker.Closed
	halfOpen = breaker.HalfOpen
	open     = breaker.Open

	success = breaker.Success
	failure = breaker.Failure
	ignored = breaker.Ignored
)

var (
	errOpen    = breaker.ErrOpen
	errProbing = breaker.ErrProbing
)

// doubling is row 10's policy: 2 in a row, 1 s doubling to 100 s.
func doubling() breaker.Policy {
	p := inARow(2, time.Second, 1)
	p.Backoff = breaker.Backoff{Factor: 2, Max: 100 * time.Second}
	return p
}

func off() breaker.Policy {
	p := inARow(1, time.Second, 1)
	p.Mode = breaker.Off
	return p
}

func ratioOfSpan(ratio float64, minCalls int, span time.Duration) breaker.Policy {
	p := ratioOf(ratio, minCalls, 0)
	p.Window = breaker.Window{Span: span}
	return p
}

// TestPolicyCases plays the known cases of other breakers. The numbers are the
// rows of the table of policy cases; the rows missing here are about retries or
// the ramp.
func TestPolicyCases(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy breaker.Policy
		steps  []step
	}{
		{"1 no breaker", off(), []step{fail(5), succeed(1), expect(closed), counts(0, 0, 0)}},
		{"2 five in a row", inARow(5, time.Second, 1), []step{
			succeed(1), fail(4), expect(closed), fail(1), refused(errOpen), reason("5 failures in a row"),
		}},
		{"3 one passes after the cooldown", inARow(5, 100*time.Millisecond, 1), []step{
			succeed(1), fail(5), wait(200 * time.Millisecond), fail(1), refused(errOpen), reason("probe failed"),
		}},
		{"4 three probes", inARow(5, 100*time.Millisecond, 3), []step{
			fail(5), wait(200 * time.Millisecond), succeed(3), expect(closed), reason("3 of 3 probes succeeded"), succeed(1),
		}},
		{"5 the second probe fails", inARow(5, 100*time.Millisecond, 3), []step{
			fail(5), wait(200 * time.Millisecond), succeed(1), fail(1), refused(errOpen),
		}},
		{"6 upstream down", inARow(5, time.Second, 1), []step{fail(5), refused(errOpen)}},
		{"7 four of the last ten", ratioOf(0.4, 10, 10), []step{
			succeed(10), fail(3), expect(closed), fail(1), expect(open), reason("4 of 10 calls failed"),
		}},
		{"8 two of six", ratioOf(4.0/6, 4, 6), []step{times(3, fail(1), succeed(2)), expect(closed)}},
		{"9 six of ten", ratioOf(0.6, 10, 10), []step{succeed(6), fail(4), expect(closed)}},
		{"9 off", off(), []step{fail(4), expect(closed)}},
		{"9 four of ten", ratioOf(0.4, 10, 10), []step{succeed(6), fail(4), expect(open)}},
		{"10 exactly one probe", doubling(), []step{
			fail(2), wait(500 * time.Millisecond), refused(errOpen), retryAfter(500 * time.Millisecond),
			wait(500 * time.Millisecond), begin("probe"), refused(errProbing), retryAfter(0),
		}},
		{"11 late success while open", doubling(), []step{
			begin("late"), fail(2), wait(time.Second), fail(1), retryAfter(2 * time.Second),
			end("late", success), expect(open), wait(2*time.Second - 1), refused(errOpen),
			wait(1), succeed(1), expect(closed),
		}},
		{"12 a success between", inARow(3, time.Second, 1), []step{fail(2), succeed(1), fail(2), expect(closed)}},
		{"13 one of two", ratioOf(0.2, 1, 20), []step{succeed(1), fail(1), expect(open), reason("1 of 2 calls failed")}},
		{"14 below the minimum", ratioOf(0.5, 5, 20), []step{fail(4), expect(closed)}},
		{"18 six in a row", inARow(6, time.Minute, 1), []step{
			fail(5), succeed(1), fail(5), expect(closed), fail(1), expect(open),
			wait(time.Minute - 1), refused(errOpen), wait(1), begin("probe"), refused(errProbing),
		}},
		{"19 old outcomes are forgotten", ratioOfSpan(0.6, 3, 30*time.Second), []step{
			succeed(20), fail(2), wait(30 * time.Second), counts(0, 0, 0),
			fail(1), succeed(1), expect(closed), fail(1), expect(open), reason("2 of 3 calls failed"),
		}},
		{"20 neutral outcomes between probes", inARow(5, time.Second, 3), []step{
			fail(5), wait(time.Second), ignore(4), succeed(1), ignore(1), succeed(1), begin("third"),
			expect(halfOpen), refused(errProbing), end("third", success), expect(closed),
		}},
		{"22 minimum of twenty", ratioOf(0.5, 20, 20), []step{fail(19), expect(closed), fail(1), expect(open)}},
		{"23 only the last opens", inARow(5, time.Second, 1), []step{
			fail(1), succeed(1), fail(4), expect(closed), fail(1), expect(open),
		}},
		{"24 alternating", inARow(5, time.Second, 1), []step{times(100, fail(1), succeed(1)), expect(closed)}},
	} {
		t.Run(c.name, func(t *testing.T) { play(t, c.policy, c.steps...) })
	}
}

// field is the breaker of the field cases.
func field() breaker.Policy { return inARow(3, time.Second, 1) }

// A1: a probe that ends without a verdict must not keep its place, else the
// circuit would refuse for ever.
func TestProbeWithoutVerdictGivesItsPlaceBack(t *testing.T) {
	play(t, field(),
		fail(3), wait(1100*time.Millisecond),
		begin("probe"), refused(errProbing), wait(100*time.Millisecond), end("probe", ignored),
		expect(halfOpen), succeed(1), expect(closed), counts(0, 0, 0))
	play(t, slowRule(1),
		slow(10), expect(open), wait(10*time.Second),
		times(5, abandon(1), expect(halfOpen)), succeed(1), expect(closed))
}

// A3: a crowd that waits for the end of the cooldown meets one probe's place.
func TestHalfOpenAdmitsOneOfACrowd(t *testing.T) {
	play(t, field(),
		fail(3), wait(1100*time.Millisecond), begin("probe"),
		times(49, refused(errProbing)), wait(400*time.Millisecond), end("probe", success), expect(closed), succeed(50))
}

// A5: callers that leave, and answers that are not failures, open nothing.
func TestOthersFaultsOpenNothing(t *testing.T) {
	play(t, field(), ignore(20), succeed(40), expect(closed), counts(20, 0, 0), heard())
}

// A7: failures that arrive while the circuit is open do not prolong it, and
// there is one transition.
func TestLateFailuresDoNotProlongTheCooldown(t *testing.T) {
	steps := []step{}
	for _, name := range []string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10"} {
		steps = append(steps, begin(name))
	}
	for _, name := range []string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10"} {
		steps = append(steps, wait(100*time.Millisecond), end(name, failure))
	}
	steps = append(steps,
		heard(open), wait(300*time.Millisecond-1), refused(errOpen),
		wait(1), succeed(1), heard(open, halfOpen, closed), opened(1, time.Second))
	s := play(t, field(), steps...)
	if at := s.heard[0].At; !at.Equal(start.Add(300 * time.Millisecond)) {
		t.Errorf("opened at %v, want the third failure's moment", at.Sub(start))
	}
}
