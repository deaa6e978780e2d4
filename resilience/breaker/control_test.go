package breaker_test

import (
	"testing"
	"time"

	"sidecar/resilience/breaker"
)

func setMode(m breaker.Mode) step {
	return change(func(p *breaker.Policy) { p.Mode = m })
}

func setProbes(n int) step {
	return change(func(p *breaker.Policy) { p.Probes = n })
}

func setWindow(w breaker.Window) step {
	return change(func(p *breaker.Policy) { p.Window = w })
}

func TestSetPolicy(t *testing.T) {
	second := time.Second
	for _, c := range []struct {
		name   string
		policy breaker.Policy
		steps  []step
	}{
		{"an open circuit keeps its end", inARow(1, 10*second, 1), []step{
			fail(1), wait(4 * second), change(func(p *breaker.Policy) { p.Cooldown = time.Hour }),
			retryAfter(6 * second), wait(6 * second), fail(1), retryAfter(time.Hour),
		}},
		{"thresholds keep the outcomes", ratioOf(0.5, 10, 20), []step{
			fail(6), succeed(3), change(func(p *breaker.Policy) { p.MinCalls = 5 }), counts(9, 6, 0),
			expect(closed), succeed(1), expect(open), reason("6 of 10 calls failed"),
		}},
		{"another number of calls empties the window", ratioOf(0.5, 10, 20), []step{
			fail(9), setWindow(breaker.Window{Calls: 30}), counts(0, 0, 0), fail(9), expect(closed), fail(1), expect(open),
		}},
		{"another span empties the window", ratioOfSpan(0.5, 10, second), []step{
			fail(9), setWindow(breaker.Window{Span: time.Minute}), counts(0, 0, 0), fail(9),
			wait(30 * second), counts(9, 9, 0), setWindow(breaker.Window{Calls: 10}), counts(0, 0, 0),
		}},
		{"fewer probes than succeeded close at once", inARow(1, second, 5), []step{
			fail(1), wait(second), succeed(3), begin("p"), setProbes(2), expect(closed), reason("3 of 3 probes succeeded"),
			end("p", failure), expect(closed),
		}},
		{"as many probes as succeeded close at once", inARow(1, second, 5), []step{
			fail(1), wait(second), succeed(3), setProbes(3), expect(closed),
		}},
		{"fewer probes, but not enough succeeded", inARow(1, second, 5), []step{
			fail(1), wait(second), succeed(1), begin("a"), begin("b"), setProbes(2), refused(errProbing),
			end("a", ignored), refused(errProbing), end("b", ignored), succeed(1), expect(closed),
		}},
		{"more probes", inARow(1, second, 1), []step{
			fail(1), wait(second), begin("a"), refused(errProbing), setProbes(2), begin("b"), refused(errProbing),
			end("a", success), expect(halfOpen), end("b", success), expect(closed),
		}},
		{"probes below one are one", inARow(1, second, 0), []step{
			fail(1), wait(second), begin("a"), refused(errProbing), setProbes(-3), refused(errProbing), end("a", success), expect(closed),
		}},
		{"off closes and forgets", inARow(2, second, 1), []step{
			begin("late"), fail(2), setMode(breaker.Off), expect(closed), counts(0, 0, 0), reason("switched off"),
			heard(open, closed), fail(5), counts(0, 0, 0), begin("free"), setMode(breaker.Enforce), end("free", failure),
			end("late", failure), counts(0, 0, 0), fail(1), expect(closed), fail(1), expect(open),
		}},
		{"off stays off", off(), []step{fail(1), setProbes(3), fail(1), heard()}},
	} {
		t.Run(c.name, func(t *testing.T) { play(t, c.policy, c.steps...) })
	}
}

func TestForce(t *testing.T) {
	second := time.Second
	for _, c := range []struct {
		name   string
		policy breaker.Policy
		steps  []step
	}{
		{"open refuses until automatic", inARow(2, second, 1), []step{
			fail(1), force(breaker.ForcedOpen), refused(errOpen), retryAfter(0), reason("forced open"),
			wait(time.Hour), refused(errOpen), opened(1, time.Hour), force(breaker.Auto), expect(closed), counts(0, 0, 0),
			reason("back to automatic"), fail(1), expect(closed), heard(open, closed),
		}},
		{"an open circuit forced open has no end", inARow(1, second, 1), []step{
			fail(1), force(breaker.ForcedOpen), wait(time.Hour), refused(errOpen), heard(open), opened(1, time.Hour),
		}},
		{"the order repeated changes nothing", inARow(1, second, 1), []step{
			force(breaker.ForcedOpen), wait(second), force(breaker.ForcedOpen), opened(1, second), heard(open),
		}},
		{"closed records and never trips", inARow(2, second, 1), []step{
			fail(2), force(breaker.ForcedClosed), expect(closed), reason("forced closed"), fail(5), counts(5, 5, 0), expect(closed),
			force(breaker.ForcedClosed), counts(5, 5, 0), force(breaker.Auto), counts(0, 0, 0), fail(1), expect(closed), fail(1), expect(open),
		}},
		{"automatic closes an open circuit", inARow(1, second, 1), []step{
			fail(1), force(breaker.Auto), expect(closed), heard(open, closed),
		}},
		{"a probe's late verdict does not end it", inARow(1, second, 1), []step{
			fail(1), wait(second), begin("p"), force(breaker.ForcedOpen), end("p", success), expect(open),
			force(breaker.Auto), expect(closed),
		}},
		{"survives reload and another upstream", inARow(1, second, 1), []step{
			force(breaker.ForcedOpen), setProbes(2), refused(errOpen), reset, refused(errOpen), reason("forced open"),
			setMode(breaker.Observe), refused(errOpen), setMode(breaker.Off), refused(errOpen), wait(second), opened(1, second),
			setMode(breaker.Enforce), force(breaker.ForcedClosed), setProbes(3), reset, fail(3), expect(closed), counts(3, 3, 0),
		}},
		{"unknown orders change nothing", inARow(1, second, 1), []step{fail(1), force(breaker.Forced(9)), expect(open)}},
	} {
		t.Run(c.name, func(t *testing.T) { play(t, c.policy, c.steps...) })
	}
}

func TestReset(t *testing.T) {
	play(t, doubling(),
		begin("old upstream"), fail(2), wait(time.Second), fail(1), reset, expect(closed), counts(0, 0, 0),
		reason("upstream changed"), heard(open, halfOpen, open, closed), opened(2, time.Second),
		fail(1), end("old upstream", failure), counts(1, 1, 0), expect(closed),
		fail(1), expect(open), retryAfter(time.Second), opened(3, time.Second))
}

func TestObserveRefusesNothing(t *testing.T) {
	p := inARow(2, time.Second, 1)
	p.Mode = breaker.Observe
	s := play(t, p,
		fail(2), expect(open), times(3, wouldReject), wait(time.Second), begin("probe"), wouldReject, expect(halfOpen),
		end("probe", success), expect(closed), counts(0, 0, 0), heard(open, halfOpen, closed))
	if got := s.b.Snapshot(s.now).WouldReject; got != 4 {
		t.Errorf("WouldReject = %d, want 4", got)
	}
}

// The window of a circuit that opened tells why, until it closes.
func TestWindowIsShownWhileOpen(t *testing.T) {
	play(t, ratioOf(0.5, 10, 20), fail(10), expect(open), counts(10, 10, 0), wait(10*time.Second), begin("p"),
		expect(halfOpen), counts(10, 10, 0), end("p", success), counts(0, 0, 0))
}

// A listener may use the breaker, and what that causes is told afterwards.
func TestListenerMayUseTheBreaker(t *testing.T) {
	var b *breaker.Breaker
	var told []breaker.State
	b = breaker.New(start, inARow(1, time.Second, 1), func(tr breaker.Transition) {
		if tr.To == open {
			b.Force(start, breaker.ForcedClosed)
		}
		told = append(told, tr.To)
	})
	p, err := b.Allow(start)
	if err != nil {
		t.Fatal(err)
	}
	p.Done(start, failure)
	if len(told) != 2 || told[0] != open || told[1] != closed {
		t.Errorf("told %v, want open and then closed", told)
	}
}

// The zero policy and a nil listener are harmless.
func TestZeroPolicy(t *testing.T) {
	b := breaker.New(start, breaker.Policy{}, nil)
	for range 100 {
		p, err := b.Allow(start)
		if err != nil {
			t.Fatal(err)
		}
		p.Done(start, failure|breaker.Slow)
	}
	b.Force(start, breaker.ForcedOpen)
	if got := b.Snapshot(start); got.State != open || got.Calls != 0 {
		t.Errorf("snapshot = %+v, want forced open and no calls", got)
	}
}
