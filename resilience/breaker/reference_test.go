package breaker_test

import (
	"fmt"
	"math"
	"time"

	"sidecar/resilience/breaker"
)

// reference is a breaker as plain as can be, to compare the real one with: it
// keeps every outcome in a list and counts anew each time, and a permit holds
// the very era it was granted in. It takes no locks and spreads nothing.
type reference struct {
	p      breaker.Policy
	forced breaker.Forced
	now    time.Time
	spell  *spell
	list   []logged  // all outcomes in the present closed era, or the last one
	first  int       // the first of them since the window got its shape
	cut    time.Time // where the steps of a time window are counted from
	grown  int       // failed probes in a row
	told   []breaker.Transition
	opened uint64
	spent  time.Duration
	would  uint64
}

// spell is one era.
type spell struct {
	state     breaker.State
	since     time.Time
	until     time.Time
	reason    string
	recovered time.Time
	inFlight  int
	results   []breaker.Outcome // verdicts of probes
}

type logged struct {
	at time.Time
	o  breaker.Outcome
}

// refPermit mirrors a Permit.
type refPermit struct {
	in             *spell
	asked, settled bool // asked: the outcome is wanted
	probe, would   bool
	recovered      time.Time
}

func newReference(now time.Time, p breaker.Policy) *reference {
	return &reference{p: p, now: now, cut: now, spell: &spell{since: now}}
}

func (r *reference) tick(now time.Time) {
	if now.After(r.now) {
		r.now = now
	}
	if s := r.spell; s.state == open && r.forced == breaker.Auto && !r.now.Before(s.until) {
		r.begin(halfOpen, s.until, "cooldown over")
	}
}

func (r *reference) begin(to breaker.State, at time.Time, why string) {
	old := r.spell
	if old.state == open {
		r.spent += at.Sub(old.since)
	}
	r.spell = &spell{state: to, since: at, reason: why}
	if to == closed {
		r.list, r.first = nil, 0
	}
	if to == open && r.forced != breaker.ForcedOpen {
		d := float64(r.p.Cooldown)
		if r.p.Backoff.Factor > 1 {
			d = min(d*math.Pow(r.p.Backoff.Factor, float64(r.grown)), float64(r.p.Backoff.Max))
		}
		r.spell.until = at.Add(time.Duration(d))
	}
	if to != old.state {
		if to == open {
			r.opened++
		}
		r.told = append(r.told, breaker.Transition{From: old.state, To: to, At: at, Reason: why, OpenUntil: r.spell.until})
	}
}

func (r *reference) toClosed(why string) {
	r.grown = 0
	if r.forced == breaker.ForcedOpen {
		r.list, r.first = nil, 0
		return
	}
	r.begin(closed, r.now, why)
}

// counts counts the window. A time window is cut into sixty steps; an outcome
// counts while fewer than sixty steps have begun after its own.
func (r *reference) counts() (calls, failures, slow int) {
	for i, e := range r.list {
		if i < r.first {
			continue
		}
		if w := r.p.Window; w.Span > 0 {
			length := w.Span / 60
			if r.now.Sub(r.cut)/length-e.at.Sub(r.cut)/length >= 60 {
				continue
			}
		} else if i < len(r.list)-w.Calls {
			continue
		}
		calls++
		if e.o&failure != 0 {
			failures++
		}
		if e.o&breaker.Slow != 0 {
			slow++
		}
	}
	return calls, failures, slow
}

// admitsOrRefuses reports whether Allow answers without any change. The time of
// such a call leaves no trace.
func (r *reference) admitsOrRefuses(now time.Time) bool {
	switch {
	case r.forced == breaker.ForcedOpen, r.p.Mode == breaker.Off, r.spell.state == closed:
		return true
	case r.spell.state == open && r.p.Mode == breaker.Enforce:
		return now.Before(r.spell.until)
	}
	return false
}

// steady reports whether one more success changes nothing.
func (r *reference) steady() bool {
	calls, failures, slow := r.counts()
	return r.spell.state == closed && calls > 0 && calls == r.p.Window.Calls && failures+slow == 0
}

func (r *reference) allow(now time.Time) (*refPermit, error) {
	if !r.admitsOrRefuses(now) {
		r.tick(now)
	}
	if r.forced == breaker.ForcedOpen {
		return nil, errOpen
	}
	p := &refPermit{in: r.spell}
	if r.p.Mode == breaker.Off {
		return p, nil
	}
	var err error
	switch r.spell.state {
	case open:
		err = errOpen
	case halfOpen:
		if r.spell.inFlight+len(r.spell.results) >= r.p.Probes {
			err = errProbing
		} else {
			r.spell.inFlight++
			p.probe = true
		}
	}
	if err != nil {
		if r.p.Mode == breaker.Enforce {
			return nil, err
		}
		r.would++
		p.would = true
		return p, nil
	}
	p.asked = true
	if r.p.Mode == breaker.Enforce {
		p.recovered = r.spell.recovered
	}
	return p, nil
}

func (r *reference) done(p *refPermit, now time.Time, o breaker.Outcome) {
	if !p.asked || p.settled {
		return
	}
	p.settled = true
	if !p.probe && (o == ignored || o == success && r.steady()) {
		return
	}
	r.tick(now)
	if p.in != r.spell {
		return
	}
	if r.spell.state == closed {
		r.list = append(r.list, logged{r.now, o})
		r.judgeCalls()
		return
	}
	r.spell.inFlight--
	switch {
	case o&failure != 0:
		r.grown++
		r.begin(open, r.now, "probe failed")
	case o&success != 0:
		r.spell.results = append(r.spell.results, o)
		r.judgeProbes()
	}
}

// run counts the failures since the last success, however old. The list is kept
// in whole for it: what a window forgot may still be part of the run.
func (r *reference) run() int {
	n := 0
	for i := len(r.list) - 1; i >= 0 && r.list[i].o&success == 0; i-- {
		if r.list[i].o&failure != 0 {
			n++
		}
	}
	return n
}

func (r *reference) judgeCalls() {
	if r.forced == breaker.ForcedClosed {
		return
	}
	calls, failures, slow := r.counts()
	ratio := func(n int) float64 { return float64(n) / float64(calls) }
	sc, n := r.p.SlowCall, r.run()
	switch {
	case calls >= r.p.MinCalls && failures > 0 && ratio(failures) >= r.p.FailureRatio:
		r.begin(open, r.now, fmt.Sprintf("%d of %d calls failed", failures, calls))
	case r.p.ConsecutiveFailures > 0 && n >= r.p.ConsecutiveFailures:
		r.begin(open, r.now, fmt.Sprintf("%d failures in a row", n))
	case sc.Ratio > 0 && calls >= r.p.MinCalls && slow > 0 && ratio(slow) >= sc.Ratio:
		r.begin(open, r.now, fmt.Sprintf("%d of %d calls slower than %v", slow, calls, sc.After))
	}
}

func (r *reference) judgeProbes() {
	slow := 0
	for _, o := range r.spell.results {
		if o&breaker.Slow != 0 {
			slow++
		}
	}
	n := len(r.spell.results)
	if sc := r.p.SlowCall; sc.Ratio > 0 && slow > 0 && float64(slow)/float64(r.p.Probes) >= sc.Ratio {
		r.grown++
		r.begin(open, r.now, fmt.Sprintf("probes slower than %v", sc.After))
	} else if n >= r.p.Probes {
		r.toClosed(fmt.Sprintf("%d of %d probes succeeded", n, n))
		if r.p.Mode == breaker.Enforce {
			r.spell.recovered = r.now
		}
	}
}

func (r *reference) snapshot(now time.Time) breaker.Snapshot {
	r.tick(now)
	s := breaker.Snapshot{
		State: r.spell.state, Mode: r.p.Mode, Forced: r.forced, Since: r.spell.since, OpenUntil: r.spell.until,
		Reason: r.spell.reason, OpenedTotal: r.opened, OpenTime: r.spent, WouldReject: r.would,
	}
	s.Calls, s.Failures, s.Slow = r.counts()
	if r.p.Mode == breaker.Enforce {
		s.RecoveredAt = r.spell.recovered
	}
	if s.State == open {
		s.OpenTime += r.now.Sub(s.Since)
	}
	return s
}
