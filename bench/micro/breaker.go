package main

import (
	"errors"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/sony/gobreaker/v2"

	"sidecar/resilience/breaker"
)

// The rule of every breaker here: half of the last window failed. The windows
// are the last 20 calls, or the last 10 s in ten or more steps.
const (
	windowCalls = 20
	windowSpan  = 10 * time.Second
	ratio       = 0.5
	cooldown    = time.Hour
)

var errSick = errors.New("sick")

// breakerRows are the success path, the path of a call that fails without
// tripping, and the refusal.
func breakerRows() []row {
	const (
		ofCalls = "Window of the last 20 calls; gobreaker, which has none, counts for ever."
		ofTime  = "Window of the last 10 s: 60 steps in ours, 10 in the others."
	)
	calls, span := breaker.Window{Calls: windowCalls}, breaker.Window{Span: windowSpan}
	byCalls := func(failing int) []entry {
		return []entry{
			ours(calls, 0, failing), failsafe(false, failing),
			ours(calls, 2, failing), goBreaker(false, failing),
		}
	}
	byTime := func(failing int) []entry {
		return []entry{
			ours(span, 1, failing), failsafe(true, failing),
			ours(span, 2, failing), goBreaker(true, failing),
		}
	}
	return []row{
		{"breaker, window of calls, success", "Permit and outcome of a call that succeeds. " + ofCalls, byCalls(0)},
		{"breaker, window of calls, one in five fails", "The same, and every fifth outcome is a failure. " + ofCalls, byCalls(5)},
		{"breaker, window of time, success", "Permit and outcome of a call that succeeds. " + ofTime, byTime(0)},
		{"breaker, window of time, one in five fails", "The same, and every fifth outcome is a failure. " + ofTime, byTime(5)},
		{"breaker, refused", "The circuit is open.", []entry{oursOpen(1), goBreakerOpen(), failsafeOpen(), oursOpen(0)}},
	}
}

// fails reports whether the i-th call of a goroutine fails: every n-th does.
func fails(i, n int) bool { return n > 0 && i%n == 0 }

func policy(w breaker.Window) breaker.Policy {
	return breaker.Policy{Window: w, MinCalls: windowCalls, FailureRatio: ratio, Cooldown: cooldown, Probes: 1}
}

// ours reads the clock never, once a call (for the outcome; the permit is asked
// for with the reading of the call's arrival), or for both.
func ours(w breaker.Window, clocks, failing int) entry {
	return entry{who: "sidecar", clocks: clocks, ours: true, make: func() func(int) {
		start := time.Now()
		b := breaker.New(start, policy(w), nil)
		return func(i int) {
			now := start
			if clocks > 1 {
				now = time.Now()
			}
			permit, err := b.Allow(now)
			must(err == nil)
			outcome := breaker.Success
			if fails(i, failing) {
				outcome = breaker.Failure
			}
			if clocks > 0 {
				now = time.Now()
			}
			permit.Done(now, outcome)
		}
	}}
}

func oursOpen(clocks int) entry {
	return entry{who: "sidecar", clocks: clocks, ours: true, make: func() func(int) {
		start := time.Now()
		p := policy(breaker.Window{Calls: windowCalls})
		p.ConsecutiveFailures = 1
		b := breaker.New(start, p, nil)
		permit, _ := b.Allow(start)
		permit.Done(start, breaker.Failure)
		_, err := b.Allow(start)
		must(errors.Is(err, breaker.ErrOpen))
		return func(int) {
			now := start
			if clocks > 0 {
				now = time.Now()
			}
			_, err := b.Allow(now)
			must(err != nil)
		}
	}}
}

func newGoBreaker(rolling, trips bool) *gobreaker.CircuitBreaker[struct{}] {
	s := gobreaker.Settings{Timeout: cooldown, ReadyToTrip: func(c gobreaker.Counts) bool {
		return c.Requests >= windowCalls && float64(c.TotalFailures)/float64(c.Requests) >= ratio
	}}
	if rolling {
		s.Interval, s.BucketPeriod = windowSpan, windowSpan/10
	}
	if trips {
		s.ReadyToTrip = func(gobreaker.Counts) bool { return true }
	}
	return gobreaker.NewCircuitBreaker[struct{}](s)
}

// goBreaker uses Execute; its two-step form allocates.
func goBreaker(rolling bool, failing int) entry {
	return entry{who: "gobreaker", clocks: 2, make: func() func(int) {
		b := newGoBreaker(rolling, false)
		succeed := func() (struct{}, error) { return struct{}{}, nil }
		fail := func() (struct{}, error) { return struct{}{}, errSick }
		return func(i int) {
			if fails(i, failing) {
				_, err := b.Execute(fail)
				must(err != nil)
				return
			}
			_, err := b.Execute(succeed)
			must(err == nil)
		}
	}}
}

func goBreakerOpen() entry {
	return entry{who: "gobreaker", clocks: 1, make: func() func(int) {
		b := newGoBreaker(false, true)
		call := func() (struct{}, error) { return struct{}{}, errSick }
		_, _ = b.Execute(call)
		_, err := b.Execute(call)
		must(errors.Is(err, gobreaker.ErrOpenState))
		return func(int) {
			_, err := b.Execute(call)
			must(err != nil)
		}
	}}
}

// failsafe uses the breaker by itself, which is cheaper than failsafe's With. It
// reads the clock for a window of time only, once for each outcome.
func failsafe(timed bool, failing int) entry {
	e := entry{who: "failsafe-go", make: func() func(int) {
		builder := circuitbreaker.NewBuilder[any]().WithDelay(cooldown)
		if timed {
			builder.WithFailureRateThreshold(ratio, windowCalls, windowSpan)
		} else {
			builder.WithFailureThresholdRatio(windowCalls*ratio, windowCalls)
		}
		b := builder.Build()
		return func(i int) {
			must(b.TryAcquirePermit())
			if fails(i, failing) {
				b.RecordFailure()
			} else {
				b.RecordSuccess()
			}
		}
	}}
	if timed {
		e.clocks = 1
	}
	return e
}

func failsafeOpen() entry {
	return entry{who: "failsafe-go", clocks: 1, make: func() func(int) {
		b := circuitbreaker.NewBuilder[any]().WithDelay(cooldown).Build()
		b.Open()
		return func(int) { must(!b.TryAcquirePermit()) }
	}}
}
