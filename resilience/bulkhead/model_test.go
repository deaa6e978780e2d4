package bulkhead

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// The model runs random schedules against the bulkhead in virtual time and
// against a plain reference that moves millisecond by millisecond. Everything
// happens at whole milliseconds (ramps are chosen so that their steps do too)
// but queue timeouts, which end a little after, so that no two events tie
// whose order the bulkhead leaves open.
const (
	tick     = time.Millisecond
	offTick  = 333 * time.Nanosecond
	rampUnit = 60 * tick // Divisible by 1 to 6, so up to 7 permits.
)

var errEvicted = errors.New("evicted by the schedule")

type step struct {
	kind    string
	pick, n int
	policy  Policy
	look    bool // compare snapshots after it, which closes and opens the lane
}

func drawPolicy(t *rapid.T) Policy {
	p := Policy{
		MaxConcurrent: rapid.IntRange(1, 7).Draw(t, "max"),
		MaxWaiting:    rapid.IntRange(0, 6).Draw(t, "waiting"),
		Ramp:          rapid.SampledFrom([]time.Duration{0, rampUnit, 3 * rampUnit, 10 * rampUnit}).Draw(t, "ramp"),
	}
	if ms := rapid.SampledFrom([]int{0, 1, 30, 200}).Draw(t, "timeout"); ms > 0 {
		p.QueueTimeout = time.Duration(ms)*tick + offTick
	}
	return p
}

func drawStep(t *rapid.T) step {
	s := step{
		kind: rapid.SampledFrom([]string{
			"acquire", "acquire", "acquire", "acquire", "release", "release", "release again",
			"advance", "advance", "recover", "cancel", "cancel and release", "evict", "set policy",
		}).Draw(t, "kind"),
		pick: rapid.IntRange(0, 50).Draw(t, "pick"),
		n:    rapid.IntRange(1, 100).Draw(t, "n"),
		look: rapid.IntRange(0, 3).Draw(t, "look") == 0,
	}
	if s.kind == "set policy" {
		s.policy = drawPolicy(t)
	}
	return s
}

// fate is what has become of a call, and when.
type fate struct {
	state string // waiting, running, done, or the error
	at    time.Duration
}

// reference is the plain bulkhead: lists and counters, all time in ticks.
type reference struct {
	policy    Policy
	now       time.Duration
	from      time.Duration // start of the ramp; below 0: none
	recovered time.Duration
	queue     []int
	deadline  map[int]time.Duration
	fates     []fate
}

func (r *reference) inUse() (n int) {
	for _, f := range r.fates {
		if f.state == "running" {
			n++
		}
	}
	return n
}

func (r *reference) limit() int {
	if r.from >= 0 && r.now-r.from >= r.policy.Ramp {
		r.from = -1
	}
	if r.from < 0 {
		return r.policy.MaxConcurrent
	}
	return 1 + int(time.Duration(r.policy.MaxConcurrent-1)*(r.now-r.from)/r.policy.Ramp)
}

func (r *reference) leave(id int, state string, at time.Duration) {
	r.queue = slices.DeleteFunc(r.queue, func(other int) bool { return other == id })
	r.fates[id] = fate{state, at}
}

func (r *reference) grant() {
	for limit := r.limit(); len(r.queue) > 0 && r.inUse() < limit; {
		r.leave(r.queue[0], "running", r.now)
	}
}

func (r *reference) acquire() {
	id := len(r.fates)
	r.fates = append(r.fates, fate{"waiting", r.now})
	switch {
	case len(r.queue) == 0 && r.inUse() < r.limit():
		r.fates[id].state = "running"
	case len(r.queue) >= r.policy.MaxWaiting:
		r.fates[id].state = ErrFull.Error()
	default:
		r.queue = append(r.queue, id)
		if r.policy.QueueTimeout > 0 {
			r.deadline[id] = r.now + r.policy.QueueTimeout
		}
	}
}

func (r *reference) advance(ticks int) {
	for range ticks {
		r.now += tick
		for _, id := range slices.Clone(r.queue) {
			if d, ok := r.deadline[id]; ok && d < r.now {
				r.leave(id, ErrQueueTimeout.Error(), d)
			}
		}
		r.grant()
	}
}

// player runs one schedule on both.
type player struct {
	ref   reference
	b     *Bulkhead
	began time.Time
	calls []*call
}

func (p *player) acquire(t *testing.T, recovered time.Duration) {
	at := time.Time{}
	if recovered >= 0 {
		at = p.began.Add(recovered)
		if recovered > p.ref.recovered {
			p.ref.recovered, p.ref.from = recovered, recovered
		}
	}
	p.ref.grant()
	p.ref.acquire()
	p.calls = append(p.calls, startRecovered(t, p.b, at))
}

// in returns the calls that the reference has in a state.
func (p *player) in(state string) (ids []int) {
	for id, f := range p.ref.fates {
		if f.state == state {
			ids = append(ids, id)
		}
	}
	return ids
}

func (p *player) release(id int) {
	p.ref.leave(id, "done", p.ref.fates[id].at)
	p.ref.grant()
	p.calls[id].slot.Release(time.Now())
}

func (p *player) cancel(id int) {
	p.ref.leave(id, context.Canceled.Error(), p.ref.now)
	p.calls[id].cancel(nil)
}

func (p *player) play(t *testing.T, s step) {
	pick := func(ids []int) int { return ids[s.pick%len(ids)] }
	waiting, running, done := p.ref.queue, p.in("running"), p.in("done")
	switch {
	case s.kind == "acquire":
		p.acquire(t, -1)
	case s.kind == "recover": // Now, or earlier: heard of late, or for the second time.
		p.acquire(t, max(p.ref.now-time.Duration(s.pick%3)*20*tick, 0))
	case s.kind == "release" && len(running) > 0:
		p.release(pick(running))
	case s.kind == "release again" && len(done) > 0:
		p.calls[pick(done)].slot.Release(time.Now())
	case s.kind == "cancel" && len(waiting) > 0:
		p.cancel(pick(waiting))
	case s.kind == "cancel and release" && len(waiting) > 0 && len(running) > 0:
		p.cancel(waiting[0])
		p.release(pick(running))
	case s.kind == "evict":
		for _, id := range slices.Clone(waiting) {
			p.ref.leave(id, errEvicted.Error(), p.ref.now)
		}
		p.b.Evict(errEvicted)
	case s.kind == "set policy":
		p.ref.limit() // Finds a ramp that is over before its settings change.
		p.ref.policy = s.policy
		p.ref.grant()
		p.b.SetPolicy(time.Now(), s.policy)
	case s.kind == "advance":
		p.ref.advance(s.n)
		time.Sleep(time.Duration(s.n) * tick)
	}
	synctest.Wait()
}

// fault names the first difference between the bulkhead and the reference.
func (p *player) fault(look bool) string {
	want := Snapshot{
		Limit: p.ref.limit(), MaxConcurrent: p.ref.policy.MaxConcurrent,
		InUse: p.ref.inUse(), Waiting: len(p.ref.queue), MaxWaiting: p.ref.policy.MaxWaiting,
	}
	if len(p.ref.queue) > 0 {
		want.OldestWait = p.ref.now - p.ref.fates[p.ref.queue[0]].at
	}
	if look {
		if got := p.b.Snapshot(time.Now()); got != want {
			return fmt.Sprintf("snapshot\n got %+v\nwant %+v", got, want)
		}
	}
	for id, c := range p.calls {
		want, got := p.ref.fates[id], fate{state: "waiting"}
		if c.ended.Load() {
			got = fate{"running", c.began.Add(c.after).Sub(p.began)}
			if c.err != nil {
				got.state = c.err.Error()
			}
		} else {
			got.at = want.at
		}
		if want.state == "done" {
			want.state = "running"
		}
		if got != want {
			return fmt.Sprintf("call %d is %v, want %v", id, got, want)
		}
	}
	return ""
}

func runSchedule(t *testing.T, policy Policy, steps []step) (fault string) {
	synctest.Test(t, func(t *testing.T) {
		p := &player{
			b: New(policy), began: time.Now(),
			ref: reference{policy: policy, from: -1, recovered: -1, deadline: map[int]time.Duration{}},
		}
		for i, s := range steps {
			p.play(t, s)
			if fault = p.fault(s.look); fault != "" {
				fault = fmt.Sprintf("after step %d: %s", i, fault)
				return
			}
		}
		// No permit is lost: once all have ended, nothing is in use.
		for len(p.in("running")) > 0 || len(p.ref.queue) > 0 {
			for _, id := range p.in("running") {
				p.release(id)
			}
			p.ref.advance(1)
			time.Sleep(tick)
			synctest.Wait()
		}
		if fault = p.fault(true); fault == "" {
			wantIdle(t, p.b)
		}
	})
	return fault
}

func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		policy := drawPolicy(rt)
		steps := rapid.SliceOfN(rapid.Custom(drawStep), 1, 60).Draw(rt, "steps")
		if fault := runSchedule(t, policy, steps); fault != "" {
			rt.Fatal(fault)
		}
	})
}
