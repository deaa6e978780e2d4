package history

import "time"

// Evidence is what the last 12 to 15 minutes say of one dependency; less time
// after its start.
type Evidence struct {
	At                     time.Time     // the last reading
	Window                 time.Duration // what Counts and the histograms cover
	Counts                 Counts
	Served, Attempts, Left Durations // see [Reading]
	Steps                  []Step    // the steps that have ended, oldest first, at most [Steps]
	Spells                 []Spell   // those that ended in Window, oldest first, at most 16
}

// Evidence returns what is known of a dependency, and false for an unknown
// name.
func (r *Recorder) Evidence(name string) (Evidence, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.tracks[name]
	if t == nil {
		return Evidence{}, false
	}
	e := Evidence{At: r.last}
	for i := range t.spans {
		s := &t.spans[i]
		e.Window += s.length
		e.Counts.add(&Counts{}, &s.counts)
		e.Served.add(&Durations{}, &s.served)
		e.Attempts.add(&Durations{}, &s.attempts)
		e.Left.add(&Durations{}, &s.left)
	}
	first, end := r.kept()
	for n := first; n < end; n++ {
		if s := t.steps[n%Steps]; s.State != 0 {
			e.Steps = append(e.Steps, s)
		}
	}
	for n := max(0, t.nSpell-spellCount); n < t.nSpell; n++ {
		if s := t.spells[n%spellCount]; e.At.Sub(s.Ended) <= e.Window {
			e.Spells = append(e.Spells, s)
		}
	}
	return e, true
}
