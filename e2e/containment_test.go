package e2e

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"
)

// What is contained: a is well and answers in 1 ms, b gets sick. The policy is
// one that an operator would choose, but for b's short times, and for a's
// generous ones: a busy machine alone must not make it lose a call.
const neighbours = `
defaults:
  attempt_timeout: 500ms
  timeout: 1s
  breaker: {cooldown: 1s, jitter: 0, ramp: 1s}
  bulkhead: {max_concurrent: 10, max_waiting: 10, queue_timeout: 250ms}
dependencies:
  - name: a
    listen: $A
    upstream: http://$U1
    attempt_timeout: 10s
    timeout: 20s
    bulkhead: {max_concurrent: 50, max_waiting: 1000, queue_timeout: 10s}
  - {name: b, listen: $B, upstream: http://$U2}
`

const (
	// perSecond is the load on each dependency.
	perSecond = 200
	// warm is how long both are well at first, so that b's window is full of
	// successes when it gets sick.
	warm = 500 * time.Millisecond
	// sick is how long b hangs.
	sick = 2500 * time.Millisecond
	// longest is what a call to b may take: queue_timeout + timeout.
	longest = 250*time.Millisecond + time.Second
)

// quick answers in 1 ms.
func quick(body string) func(*exchange) {
	return func(x *exchange) {
		if x.delay(time.Millisecond) {
			x.respond(200, body)
		}
	}
}

// outage is b's sickness as its upstream and the log saw it.
type outage struct {
	from, to time.Time // b hung
	first    time.Time // the first call that hung
	opened   time.Time // the circuit opened for the first time
}

// sicken makes b hang for a time, heals it, and returns what was seen.
func sicken(t *testing.T, s *sidecar, b *upstream) outage {
	t.Helper()
	time.Sleep(warm)
	o := outage{from: time.Now()}
	before := b.requests()
	b.handle(hang)
	o.first = b.exchange(t, before+1).start
	time.Sleep(time.Until(o.from.Add(sick)))
	o.to = time.Now()
	b.handle(quick("b"))
	for _, line := range s.logs("msg", "breaker changed", "dependency", "b", "to", "open") {
		at, err := time.Parse(time.RFC3339, fmt.Sprint(line["at"]))
		if err != nil {
			t.Fatal(err)
		}
		if o.opened.IsZero() {
			o.opened = at
		}
	}
	if o.opened.IsZero() {
		t.Fatalf("%s of hanging did not open the circuit", sick)
	}
	return o
}

// wantContained checks what b could do to its callers and to the machine.
func wantContained(t *testing.T, o outage, b *upstream, calls []result) {
	t.Helper()
	late := noise(o.from)
	if took := o.opened.Sub(o.first); took > 750*time.Millisecond+late {
		t.Errorf("the circuit opened %s after the first call that hung, want at most attempt_timeout + 250 ms", took)
	} else {
		t.Logf("the circuit opened %s after the first call that hung", round(took))
	}
	if peak := b.peak(); peak > 10 {
		t.Errorf("%d calls were at b at once, max_concurrent is 10", peak)
	}
	probes := 0
	for i := range b.requests() {
		x := b.exchange(t, i+1)
		if x.start.After(o.opened.Add(overlap+late)) && x.start.Before(o.to) {
			probes++
		}
	}
	// Each probe hangs for attempt_timeout and is followed by a cooldown.
	if most := int(sick/(1500*time.Millisecond)) + 1; probes > most {
		t.Errorf("%d calls reached b while its circuit was open, want at most %d probes", probes, most)
	}
	worst := time.Duration(0)
	for _, r := range calls {
		if r.err != nil {
			t.Errorf("a caller of b got no answer: %v", r)
			break
		}
		worst = max(worst, r.took)
	}
	if worst > longest+tolerance+late {
		t.Errorf("a caller of b waited %s, want at most %s", round(worst), longest+tolerance)
	}
	t.Logf("b: %d calls, %d answered, %d refused, %d timed out, the slowest after %s, %d probes (on this machine, %s may be noise)", len(calls),
		len(withStatus(calls, 200)), len(withStatus(calls, 503)), len(withStatus(calls, 504)), round(worst), probes, round(late))
}

// wantUnharmed checks that a's callers noticed nothing.
func wantUnharmed(t *testing.T, o outage, calls []result) {
	t.Helper()
	lost := only(calls, func(r result) bool { return r.status != http.StatusOK || r.body != "a" || r.err != nil })
	if len(lost) > 0 {
		t.Errorf("%d of %d calls to a, which was well, were lost; the first, %s after b got sick: %v",
			len(lost), len(calls), round(lost[0].sent.Sub(o.from)), lost[0])
	}
	during := only(calls, func(r result) bool { return r.sent.After(o.from) && r.sent.Before(o.to) })
	before := only(calls, func(r result) bool { return r.sent.Before(o.from) })
	t.Logf("a: p50 %s and p99 %s before, p50 %s and p99 %s during the outage, %d calls",
		quantile(before, 0.5), quantile(before, 0.99), quantile(during, 0.5), quantile(during, 0.99), len(calls))
}

// A sick dependency holds only its own share: its compartment bounds what
// hangs, its circuit soon lets nothing but probes through, its callers are
// answered in time, and its neighbour's callers notice nothing.
func TestContainment(t *testing.T) {
	a, b := newUpstream(t, quick("a")), newUpstream(t, quick("b"))
	s := start(t, neighbours, a, b)
	onA := startLoad(perSecond, warm+sick+tolerance, func(int) result { return s.get("A", "/") })
	onB := startLoad(perSecond, warm+sick+tolerance, func(int) result { return s.get("B", "/") })
	o := sicken(t, s, b)
	wantContained(t, o, b, onB.wait())
	wantUnharmed(t, o, onA.wait())
}

// The same, as an app has it: a pool of 64 workers takes calls to either
// dependency from one queue, so that a dependency whose calls hang takes the
// workers from the other.
func TestContainmentInOnePool(t *testing.T) {
	const workers = 64
	a, b := newUpstream(t, quick("a")), newUpstream(t, quick("b"))
	s := start(t, neighbours, a, b)
	type task struct {
		port   string
		queued time.Time
		done   chan result
	}
	length := warm + sick + tolerance
	tasks := make(chan task, int(2*perSecond*length.Seconds())+1) // the queue takes them all
	var pool sync.WaitGroup
	for range workers {
		pool.Go(func() {
			for job := range tasks {
				r := s.get(job.port, "/")
				r.took, r.sent = time.Since(job.queued), job.queued
				job.done <- r
			}
		})
	}
	through := func(port string) *load {
		return startLoad(perSecond, length, func(int) result {
			job := task{port, time.Now(), make(chan result, 1)}
			tasks <- job
			return <-job.done
		})
	}
	onA, onB := through("A"), through("B")
	o := sicken(t, s, b)
	ofA, ofB := onA.wait(), onB.wait()
	close(tasks)
	pool.Wait()
	wantContained(t, o, b, ofB)
	wantUnharmed(t, o, ofA)
}

// After the outage: one probe closes the circuit, the limit grows from 1 to
// max_concurrent over the ramp, with calls or without, and then everything is
// as before.
func TestRecovery(t *testing.T) {
	t.Parallel()
	b := newUpstream(t, ok)
	s := start(t, base+`
dependencies:
  - {name: b, listen: $B, upstream: http://$U, breaker: {ramp: 2s}}
`, b)
	opened := s.trip(t, b, "B", "b")
	b.handle(func(x *exchange) {
		if x.delay(50 * time.Millisecond) {
			x.respond(200, "b")
		}
	})
	time.Sleep(time.Until(opened.Add(1050 * time.Millisecond)))
	if r := s.get("B", "/"); r.status != http.StatusOK {
		t.Fatalf("the probe: %v", r)
	}
	closed := s.awaitState(t, "b", "closed", time.Second)
	if since := s.api(t, "b").Breaker.Since; since.Before(closed) {
		closed = since
	}
	limitAt := func(at time.Time) int { return min(10, max(1, int(1+9*at.Sub(closed).Seconds()/2))) }
	steps := map[int]bool{}
	look := func() {
		asked := time.Now()
		limit := int(s.metrics(t).sum(t, "sidecar_bulkhead_limit", "dependency", "b"))
		least, most := limitAt(asked.Add(-time.Millisecond)), limitAt(time.Now().Add(time.Millisecond))
		if limit < least || limit > most {
			t.Errorf("%s after closing the limit is %d, want %d to %d", time.Since(closed), limit, least, most)
		}
		steps[limit] = true
	}
	look() // before any call

	calls := startLoad(perSecond/2, 3*time.Second, func(int) result { return s.get("B", "/") })
	if !poll(5*time.Second, func() bool {
		look()
		return time.Since(closed) > 2*time.Second
	}) {
		t.Fatalf("the ramp does not end")
	}
	if len(steps) < 4 {
		t.Errorf("only the limits %v were seen during the ramp", steps)
	}
	full := time.Now()
	made := calls.wait()
	// A busy machine sends many calls at once after a pause: more than there is
	// room for, and the rest is rightly refused.
	crowded := func(at time.Time) bool {
		n := 0
		for _, r := range made {
			if !r.sent.After(at.Add(overlap)) && r.sent.Add(r.took).After(at) {
				n++
			}
		}
		return n > 10+10
	}
	for _, r := range made {
		switch {
		case r.err != nil, r.status != http.StatusOK && r.status != http.StatusServiceUnavailable:
			t.Errorf("a call during the recovery: %v", r)
		case r.sent.After(full) && r.status != http.StatusOK && !crowded(r.sent):
			t.Errorf("a call after the ramp: %v", r)
		}
	}
	for i := range b.requests() {
		x := b.exchange(t, i+1)
		beside := b.runningAt(x.start)
		if most := limitAt(x.start.Add(overlap)); x.start.After(closed) && beside > most {
			t.Errorf("%s after closing %d calls were at b, the limit was %d", x.start.Sub(closed), beside, most)
		}
	}
	all := together(10, func(int) result { return s.get("B", "/") })
	if len(withStatus(all, http.StatusOK)) != 10 {
		t.Errorf("10 calls after the recovery: %v", all)
	}
	s.wantTransitions(t, "b", 1, 1, 1)
	s.wantMetric(t, 0, "sidecar_breaker_state", "dependency", "b")
}
