package bulkhead

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// sketch is the plain reference: it knows every call's times and walks through
// every millisecond.
type sketch struct {
	policy    Policy
	now       int
	ramp      int // its start; -1 before any
	recovered int
	calls     []*sketched
}

type sketched struct {
	state          string // as in paper
	arrived, bound int
	start, ended   int // really; -1 before
	granted        int
	gone           bool // it waits and runs no more
}

func (k *sketch) limit() int {
	most, span := k.policy.MaxConcurrent, int(k.policy.Ramp/tick)
	if k.ramp < 0 || k.now-k.ramp >= span {
		return most
	}
	return 1 + (most-1)*(k.now-k.ramp)/span
}

func (k *sketch) inUse() (n int) {
	for _, c := range k.calls {
		if c.state == "in" && !c.gone {
			n++
		}
	}
	return n
}

func (k *sketch) waiting() (all []*sketched) {
	for _, c := range k.calls {
		if c.state == "waiting" && !c.gone {
			all = append(all, c)
		}
	}
	return all
}

// settle lets happen what is due in this millisecond.
func (k *sketch) settle() {
	for _, c := range k.calls {
		if c.state == "in" && !c.gone && c.ended >= 0 {
			end := max(c.ended, c.granted)
			if c.start >= 0 {
				end = max(end, c.granted+c.ended-c.start)
			}
			c.gone = k.now >= end
		}
	}
	for changed := true; changed; {
		changed = false
		if w := k.waiting(); len(w) > 0 && k.inUse() < k.limit() {
			w[0].state, w[0].granted, changed = "in", k.now, true
			if w[0].ended >= 0 && (w[0].start < 0 || w[0].ended == w[0].start) {
				w[0].gone = true // it takes no time
			}
		}
	}
	for _, c := range k.waiting() {
		if c.bound >= 0 && k.now >= c.bound {
			c.state = late
		}
	}
}

func (k *sketch) walk(to int) {
	for k.now < to {
		k.now++
		k.settle()
	}
}

func (k *sketch) enter(deadline int) {
	c := &sketched{state: "waiting", arrived: k.now, bound: -1, start: -1, ended: -1}
	k.calls = append(k.calls, c)
	switch w := k.waiting(); {
	case len(w) == 1 && k.inUse() < k.limit():
		c.state, c.granted = "in", k.now
	case len(w) > k.policy.MaxWaiting:
		c.state = full
	default:
		if t := int(k.policy.QueueTimeout / tick); t > 0 {
			c.bound = k.now + t
		}
		if deadline > 0 && (c.bound < 0 || deadline < c.bound) {
			c.bound = deadline
		}
	}
}

// TestSimulation_Model runs random schedules against the plain reference.
func TestSimulation_Model(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policy := drawPolicy(t)
		policy.QueueTimeout = policy.QueueTimeout.Truncate(tick)
		p := &paper{Simulation: NewSimulation(policy)}
		k := &sketch{policy: policy, ramp: -1, recovered: -1}
		p.Snapshot(clock(0))
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			playSketch(t, p, k)
			got := p.Snapshot(clock(k.now))
			for id, c := range k.calls {
				if p.fates[id] != c.state {
					t.Fatalf("at %d ms call %d is %q, want %q", k.now, id, p.fates[id], c.state)
				}
			}
			want := Snapshot{
				Limit: k.limit(), MaxConcurrent: policy.MaxConcurrent,
				InUse: k.inUse(), Waiting: len(k.waiting()), MaxWaiting: policy.MaxWaiting,
			}
			if w := k.waiting(); len(w) > 0 {
				want.OldestWait = time.Duration(k.now-w[0].arrived) * tick
			}
			if got != want {
				t.Fatalf("at %d ms\n got %+v\nwant %+v", k.now, got, want)
			}
		}
	})
}

// playSketch draws one step and plays it on both. The simulation is asked
// only now and then while time passes, as it is in use.
func playSketch(t *rapid.T, p *paper, k *sketch) {
	kind := rapid.SampledFrom([]string{"enter", "enter", "enter", "start", "end", "end", "pass", "pass", "recover", "leave", "evict"}).Draw(t, "kind")
	if kind == "pass" {
		k.walk(k.now + rapid.IntRange(1, 90).Draw(t, "ms"))
		return
	}
	if kind == "evict" {
		for _, c := range k.waiting() {
			c.state = errEvicted.Error()
		}
		p.Evict(clock(k.now), errEvicted)
		return
	}
	if kind == "enter" || kind == "recover" {
		recovered := time.Time{}
		if kind == "recover" && k.now > k.recovered {
			k.recovered, k.ramp, recovered = k.now, k.now, clock(k.now)
		}
		deadline := 0
		if rapid.Bool().Draw(t, "bounded") {
			deadline = k.now + rapid.IntRange(1, 60).Draw(t, "deadline")
		}
		k.enter(deadline)
		p.enter(k.now, deadline, recovered)
		return
	}
	var open []int
	for id, c := range k.calls {
		if c.ended < 0 && (kind != "start" || c.start < 0) {
			open = append(open, id)
		}
	}
	if len(open) == 0 {
		return
	}
	id := rapid.SampledFrom(open).Draw(t, "call")
	c := k.calls[id]
	switch kind {
	case "start":
		c.start = k.now
		p.Start(p.calls[id], clock(k.now))
	case "end":
		c.ended = k.now
		p.end(id, k.now)
	case "leave":
		c.ended = k.now
		c.gone = c.gone || c.state == "waiting"
		p.Leave(p.calls[id], clock(k.now))
	}
	k.settle()
}
