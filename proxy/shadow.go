package proxy

import (
	"maps"
	"sync"
	"time"

	"sidecar/resilience/breaker"
	"sidecar/resilience/bulkhead"
)

// Shadow is a proposal: settings that run beside the live ones, on the same
// calls, and refuse nobody.
type Shadow struct {
	Breaker  breaker.Policy
	Bulkhead bulkhead.Policy
}

// ShadowSnapshot tells what a proposal would have done with the calls since
// it was made. A call counts in exactly one of the four numbers, once both the
// live and the proposed settings have decided on it; one whose caller left
// before that counts in none.
type ShadowSnapshot struct {
	Since       time.Time
	Breaker     breaker.Snapshot
	Transitions map[breaker.State]uint64 // by the new state
	Bulkhead    bulkhead.Snapshot

	WouldReject map[Reason]uint64 // ran, would have been refused, by why
	WouldAdmit  map[Reason]uint64 // were refused, would have run, by why they were refused
	BothAdmit   uint64
	BothRefuse  uint64
}

// shadow runs a proposal. Its breaker is one that enforces, whose refusals are
// only noted: a call that it refuses runs all the same, but the breaker hears
// nothing of it, as it would not have been made. So the states are those of
// the proposal in earnest, as far as the live settings let calls through at
// all. It is safe for concurrent use; a nil shadow does nothing.
type shadow struct {
	d       *Dependency
	policy  Shadow
	since   time.Time
	breaker *breaker.Breaker

	mu       sync.Mutex // guards everything below, and what shadowCall says; no breaker is called under it
	bulkhead *bulkhead.Simulation
	unused   []*breaker.Permit // of calls that the bulkhead refused; see unlock
	counts   ShadowSnapshot    // its numbers
}

// shadowCall is one call as a shadow sees it. A nil one does nothing.
type shadowCall struct {
	s *shadow

	// Guarded by s.mu.
	permit         *breaker.Permit // of the latest attempt; nil when the breaker is to hear nothing
	timer          *time.Timer     // judges a probe whose body flows on; nil without one
	visit          *bulkhead.Visit // nil when the breaker refused
	live, proposed decision
}

// decision is what settings said to a call.
type decision struct {
	made    bool
	refusal Reason // empty: admitted
}

// newShadow begins to judge a proposal; nil without one.
func newShadow(d *Dependency, p *Shadow) *shadow {
	if p == nil {
		return nil
	}
	s := &shadow{d: d, policy: *p, since: time.Now(), bulkhead: bulkhead.NewSimulation(p.Bulkhead)}
	s.breaker = breaker.New(s.since, p.Breaker, s.changed)
	s.counts.Transitions = map[breaker.State]uint64{breaker.Closed: 0, breaker.HalfOpen: 0, breaker.Open: 0}
	s.counts.WouldReject, s.counts.WouldAdmit = map[Reason]uint64{}, map[Reason]uint64{}
	for _, why := range Refusals {
		s.counts.WouldReject[why], s.counts.WouldAdmit[why] = 0, 0
	}
	return s
}

// next returns the shadow for new settings. One whose proposal and upstream
// are the same goes on; any other begins afresh, and calls in flight report to
// the one they began with.
func (s *shadow) next(d *Dependency, p *Shadow, moved bool) *shadow {
	if s != nil && p != nil && s.policy == *p && !moved {
		return s
	}
	return newShadow(d, p)
}

// arrive asks the proposed settings about a call, in the order of the live
// ones: breaker, then bulkhead.
func (s *shadow) arrive(c *call) *shadowCall {
	if s == nil {
		return nil
	}
	permit, err := s.breaker.Allow(c.start)
	v := &shadowCall{s: s}
	s.mu.Lock()
	defer s.unlock(c.start)
	if err != nil {
		v.propose(err)
		return v
	}
	v.permit = &permit
	var deadline time.Time
	if t := c.policy.Timeout; t > 0 {
		deadline = c.start.Add(t)
	}
	v.visit = s.bulkhead.Enter(c.start, permit.RecoveredAt(), deadline, v.propose)
	return v
}

// unlock ends what was done under the mutex at now, and gives back the permits
// of calls that the bulkhead refused: they would never have been sent.
func (s *shadow) unlock(now time.Time) {
	unused := s.unused
	s.unused = nil
	s.mu.Unlock()
	for _, p := range unused {
		p.Done(now, breaker.Ignored)
	}
}

// propose takes the decision of the proposed settings. The mutex is held.
func (v *shadowCall) propose(err error) {
	v.proposed.made = true
	if err != nil {
		v.proposed.refusal = refused(err).why
		if v.permit != nil {
			v.s.unused = append(v.s.unused, v.permit)
			v.permit = nil
		}
	}
	v.compare()
}

// compare counts a call once both decisions are made. The mutex is held.
func (v *shadowCall) compare() {
	n, live, proposed := &v.s.counts, v.live, v.proposed
	switch {
	case !live.made || !proposed.made:
	case live.refusal == "" && proposed.refusal == "":
		n.BothAdmit++
	case live.refusal == "":
		n.WouldReject[proposed.refusal]++
	case proposed.refusal == "":
		n.WouldAdmit[live.refusal]++
	default:
		n.BothRefuse++
	}
}

// run says that the live settings let the call run, from now on.
func (v *shadowCall) run(now time.Time) {
	if v == nil {
		return
	}
	v.s.mu.Lock()
	defer v.s.unlock(now)
	if v.live.made {
		return
	}
	v.live.made = true
	if v.visit != nil {
		v.s.bulkhead.Start(v.visit, now)
	}
	v.compare()
}

// refuse says that the live settings refused the call. How long it would have
// run is not known, so here it runs for no time.
func (v *shadowCall) refuse(why Reason) {
	if v == nil {
		return
	}
	v.s.mu.Lock()
	v.live = decision{made: true, refusal: why}
	v.compare()
	v.s.mu.Unlock()
	v.end()
}

// end says that the call has ended. Later calls do nothing.
func (v *shadowCall) end() {
	if v == nil {
		return
	}
	now := time.Now()
	v.s.mu.Lock()
	defer v.s.unlock(now)
	v.stopTimer()
	if v.permit != nil {
		v.s.unused = append(v.s.unused, v.permit)
		v.permit = nil
	}
	switch {
	case v.visit == nil:
	case v.live.made:
		v.s.bulkhead.End(v.visit, now)
	default:
		v.s.bulkhead.Leave(v.visit, now)
	}
}

// retry asks the proposed breaker about another attempt. If it refuses, the
// call would have ended here: nothing more is heard of it.
func (v *shadowCall) retry(now time.Time) {
	if v == nil {
		return
	}
	v.s.mu.Lock()
	last := v.permit
	v.permit = nil
	v.s.mu.Unlock()
	if last == nil || last.Probe() {
		return // a probe is never retried
	}
	permit, err := v.s.breaker.Allow(now)
	if err != nil {
		return
	}
	v.s.mu.Lock()
	v.permit = &permit
	v.s.mu.Unlock()
}

// hear tells the proposed breaker the live verdict on an attempt that waited
// so long for its headers; what is slow, the proposal says.
func (v *shadowCall) hear(o breaker.Outcome, wait time.Duration) {
	if v == nil {
		return
	}
	v.s.mu.Lock()
	v.stopTimer()
	permit := v.permit
	v.s.mu.Unlock()
	if permit != nil {
		permit.Done(time.Now(), v.s.policy.Breaker.SlowCall.Mark(o, wait))
	}
}

// awaitBody keeps the proposed breaker's half-open from hanging, as
// [attempt.judgeProbe] does for the live one: a probe whose body flows on for
// limit is judged by its headers.
func (v *shadowCall) awaitBody(limit, wait time.Duration) {
	if v == nil {
		return
	}
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	if v.permit == nil || !v.permit.Probe() {
		return
	}
	v.timer = time.AfterFunc(max(limit, 0), func() { v.hear(breaker.Success, wait) })
}

// stopTimer is called with the mutex held.
func (v *shadowCall) stopTimer() {
	if v.timer != nil {
		v.timer.Stop()
		v.timer = nil
	}
}

// changed is the proposed breaker's notice of a change, given with no lock
// held. As in earnest, who waits when the circuit opens is refused.
func (s *shadow) changed(t breaker.Transition) {
	if s.d.current.Load().shadow != s {
		return // another proposal is judged by now
	}
	s.mu.Lock()
	s.counts.Transitions[t.To]++
	if t.To == breaker.Open && s.policy.Breaker.Mode != breaker.Observe {
		s.bulkhead.Evict(t.At, breaker.ErrOpen)
	}
	s.unlock(t.At)
	s.d.observer.ShadowChanged(s.d.name, t)
}

// snapshot returns the state at now, nil without a proposal.
func (s *shadow) snapshot(now time.Time) *ShadowSnapshot {
	if s == nil {
		return nil
	}
	b := s.breaker.Snapshot(now)
	s.mu.Lock()
	defer s.unlock(now)
	s.bulkhead.Recover(now, b.RecoveredAt)
	shown := s.bulkhead.Snapshot(now) // first, as it may decide on calls
	n := s.counts
	n.Since, n.Breaker, n.Bulkhead = s.since, b, shown
	n.Transitions, n.WouldReject, n.WouldAdmit = maps.Clone(n.Transitions), maps.Clone(n.WouldReject), maps.Clone(n.WouldAdmit)
	return &n
}
