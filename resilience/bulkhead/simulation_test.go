package bulkhead

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// paper drives a Simulation in whole milliseconds and notes what becomes of
// each call.
type paper struct {
	*Simulation
	calls []*Visit
	fates []string // beside calls: waiting, in, or the refusal
}

var midnight = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func clock(ms int) time.Time { return midnight.Add(time.Duration(ms) * tick) }

// enter lets a call arrive, with an own deadline or 0.
func (p *paper) enter(ms, deadline int, recovered time.Time) int {
	id := len(p.fates)
	p.fates = append(p.fates, "waiting")
	end := time.Time{}
	if deadline > 0 {
		end = clock(deadline)
	}
	p.calls = append(p.calls, p.Enter(clock(ms), recovered, end, func(err error) {
		if p.fates[id] != "waiting" {
			panic(fmt.Sprintf("call %d was %s and is decided again: %v", id, p.fates[id], err))
		}
		p.fates[id] = "in"
		if err != nil {
			p.fates[id] = err.Error()
		}
	}))
	return id
}

// runs is a call that really runs from its arrival on.
func (p *paper) runs(ms int) int {
	id := p.enter(ms, 0, time.Time{})
	p.Start(p.calls[id], clock(ms))
	return id
}

func (p *paper) end(id, ms int) { p.End(p.calls[id], clock(ms)) }

func (p *paper) want(t *testing.T, ms int, fates ...string) {
	t.Helper()
	p.Snapshot(clock(ms))
	if !slices.Equal(p.fates, fates) {
		t.Fatalf("at %d ms the calls are\n got %q\nwant %q", ms, p.fates, fates)
	}
}

var full, late = ErrFull.Error(), ErrQueueTimeout.Error()

// Two calls at a time really run; with one permit they take turns, each as
// long as it really took, and the queue fills.
func TestSimulation_WaitingShiftsTheEnd(t *testing.T) {
	p := &paper{Simulation: NewSimulation(Policy{MaxConcurrent: 1, MaxWaiting: 2, QueueTimeout: 180 * tick})}
	p.runs(0)
	p.runs(50)
	p.want(t, 50, "in", "waiting")
	p.end(0, 100)
	p.want(t, 100, "in", "in")
	p.runs(100)
	p.end(1, 150) // here it ends at 200
	p.runs(150)
	p.want(t, 150, "in", "in", "waiting", "waiting")
	p.runs(199)
	p.want(t, 199, "in", "in", "waiting", "waiting", full)
	p.end(2, 200) // here it runs from 200 to 300
	p.want(t, 200, "in", "in", "in", "waiting", full)
	p.end(3, 250) // here it begins at 300
	p.want(t, 300, "in", "in", "in", "in", full)
	if s := p.Snapshot(clock(399)); s.InUse != 1 || s.Waiting != 0 {
		t.Errorf("one millisecond before its simulated end the last call shows as %+v", s)
	}
	if s := p.Snapshot(clock(400)); s.InUse != 0 {
		t.Errorf("after its simulated end the last call shows as %+v", s)
	}
}

// A wait that outlasts the queue timeout is refused, at the very moment and
// whenever it is found out; one that ends in that moment is not.
func TestSimulation_QueueTimeout(t *testing.T) {
	for _, c := range []struct {
		end  int
		want string
	}{{99, "in"}, {100, "in"}, {101, late}} {
		p := &paper{Simulation: NewSimulation(Policy{MaxConcurrent: 1, MaxWaiting: 1, QueueTimeout: 100 * tick})}
		p.runs(0)
		p.runs(0)
		p.end(0, c.end)
		p.want(t, 1000, "in", c.want)
	}
	p := &paper{Simulation: NewSimulation(Policy{MaxConcurrent: 1, MaxWaiting: 2})}
	p.runs(0)
	p.enter(0, 70, time.Time{}) // without a queue timeout: until the call's own end
	p.enter(0, 0, time.Time{})
	p.want(t, 69, "in", "waiting", "waiting")
	p.want(t, 70, "in", late, "waiting")
}

// A call that left, or was refused in earnest, takes no simulated time.
func TestSimulation_NeverStarted(t *testing.T) {
	p := &paper{Simulation: NewSimulation(Policy{MaxConcurrent: 1, MaxWaiting: 3, QueueTimeout: time.Second})}
	p.runs(0)
	left, refused := p.enter(10, 0, time.Time{}), p.enter(10, 0, time.Time{})
	next := p.runs(20)
	p.Leave(p.calls[left], clock(30))
	p.end(refused, 30)
	p.end(refused, 31) // again, which changes nothing
	p.end(0, 40)
	p.want(t, 40, "in", "waiting", "in", "in")
	p.end(next, 60)
	p.Leave(p.calls[next], clock(60))
	if s := p.Snapshot(clock(80)); s.InUse != 0 || s.Waiting != 0 {
		t.Errorf("left over: %+v", s)
	}
}

// A call that really waited, and here did not, keeps its permit to its real
// end.
func TestSimulation_RealWait(t *testing.T) {
	p := &paper{Simulation: NewSimulation(Policy{MaxConcurrent: 1})}
	id := p.enter(0, 0, time.Time{})
	p.Start(p.calls[id], clock(100))
	p.end(id, 150)
	if s := p.Snapshot(clock(149)); s.InUse != 0 {
		t.Errorf("the simulation has seen 150 ms: %+v", s)
	}
	p = &paper{Simulation: NewSimulation(Policy{MaxConcurrent: 1})}
	id = p.enter(0, 0, time.Time{})
	p.Start(p.calls[id], clock(100))
	p.runs(149)
	p.end(id, 150)
	p.runs(150)
	p.want(t, 150, "in", full, "in")
}

func TestSimulation_Evict(t *testing.T) {
	p := &paper{Simulation: NewSimulation(Policy{MaxConcurrent: 1, MaxWaiting: 2})}
	p.runs(0)
	p.runs(0)
	p.runs(0)
	p.Evict(clock(10), errEvicted)
	p.want(t, 10, "in", errEvicted.Error(), errEvicted.Error())
	p.end(1, 20) // what was refused here still runs in earnest
	if s := p.Snapshot(clock(20)); s.InUse != 1 {
		t.Errorf("the call that runs shows as %+v", s)
	}
}

// A simulated bulkhead of the same size as the real one decides as it does.
func TestSimulation_SameSizeAgrees(t *testing.T) {
	policy := Policy{MaxConcurrent: 2, MaxWaiting: 1}
	b, p := New(policy), &paper{Simulation: NewSimulation(policy)}
	var slots []*Slot
	for i := range 2 {
		slots = append(slots, mustAcquire(t, b, clock(i)))
		p.runs(i)
	}
	slots[0].Release(clock(5))
	p.end(0, 5)
	slots = append(slots, mustAcquire(t, b, clock(6)))
	p.runs(6)
	p.want(t, 6, "in", "in", "in")
	for i, s := range slots {
		s.Release(clock(7))
		p.end(i, 7)
	}
	if got, want := p.Snapshot(clock(7)), b.Snapshot(clock(7)); got != want {
		t.Errorf("simulated %+v, real %+v", got, want)
	}
}
