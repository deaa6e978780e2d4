package advice_test

import (
	"slices"
	"testing"
	"time"

	"sidecar/history"
)

// edge is evidence that is just enough for a finding, and by how little it is
// not.
type edge struct {
	kind, policy string
	enough       func(*history.Evidence)
	nearly       []func(*history.Evidence) // each after enough
}

// put sets counters.
func put(pairs ...int) func(*history.Evidence) {
	return func(e *history.Evidence) {
		for i := 0; i < len(pairs); i += 2 {
			e.Counts[pairs[i]] = uint64(pairs[i+1])
		}
	}
}

// each changes every step.
func each(change func(i int, s *history.Step)) func(*history.Evidence) {
	return func(e *history.Evidence) {
		for i := range e.Steps {
			change(i, &e.Steps[i])
		}
	}
}

// both makes one change after another.
func both(all ...func(*history.Evidence)) func(*history.Evidence) {
	return func(e *history.Evidence) {
		for _, change := range all {
			change(e)
		}
	}
}

// left lets n callers leave between two moments.
func left(n uint32, early, late time.Duration) func(*history.Evidence) {
	return func(e *history.Evidence) {
		e.Left = history.Durations{}
		e.Left[history.Bucket(early)] += n / 2
		e.Left[history.Bucket(late)] += n - n/2
	}
}

// spells are recoveries that lasted so long.
func spells(lasted ...time.Duration) func(*history.Evidence) {
	return func(e *history.Evidence) {
		e.Spells = nil
		for _, d := range lasted {
			e.Spells = append(e.Spells, history.Spell{Ended: e.At, Lasted: d})
		}
	}
}

// outage is a fallback that answers in the first n steps.
func outage(n int, answered, own uint32) func(*history.Evidence) {
	return each(func(i int, s *history.Step) {
		s.OK, s.Fallback = 10, 0
		if i < n {
			s.OK, s.Fallback = own, answered
		}
	})
}

const calm = "    timeout: 1s\n    attempt_timeout: 400ms\n"

var edges = []edge{
	{
		"flapping", calm, put(int(history.ToClosed), 5, int(history.ToOpen), 5),
		[]func(*history.Evidence){put(int(history.ToClosed), 4), put(int(history.ToOpen), 4)},
	},
	{
		"failing_recovery", calm,
		both(put(int(history.ToClosed), 3, int(history.ToOpen), 4), spells(20*second, 15*second, 3*second, 21*second)),
		[]func(*history.Evidence){
			spells(20*second, 15*second, 21*second),
			put(int(history.ToOpen), 5),
			spells(20*second, 15*second, 3*second, 21*second, 30*second),
		},
	},
	{
		"blind_predicate", calm,
		put(int(history.AttemptSuccess), 198, int(history.AttemptStatus), 2, int(history.Passed), 20),
		[]func(*history.Evidence){
			put(int(history.AttemptSuccess), 100, int(history.Passed), 19),
			put(int(history.AttemptSuccess), 199),
			put(int(history.AttemptSuccess), 197, int(history.AttemptStatus), 3),
		},
	},
	{
		"never_decides", calm + "    breaker: {window: 1m, min_calls: 13}\n",
		both(put(int(history.AttemptSuccess), 20), each(func(_ int, s *history.Step) { s.Attempts = 1 })),
		[]func(*history.Evidence){
			put(int(history.AttemptSuccess), 19),
			each(func(i int, s *history.Step) {
				if i == 7 {
					s.Attempts = 2
				}
			}),
			func(e *history.Evidence) { e.Window = 3*time.Minute - second },
		},
	},
	{
		"impatient_callers", calm,
		both(put(int(history.OK), 1000, int(history.Canceled), 0), left(20, 240*ms, 300*ms)),
		[]func(*history.Evidence){
			left(19, 240*ms, 300*ms), put(int(history.OK), 1001), left(20, 180*ms, 300*ms), left(20, 400*ms, 450*ms),
		},
	},
	{
		"retry_storm", calm + "    retry: {max_retries: 1}\n",
		put(int(history.AttemptSuccess), 500, int(history.AttemptStatus), 50, int(history.Retries), 50, int(history.RetriesSucceeded), 24),
		[]func(*history.Evidence){
			put(int(history.Retries), 49),
			put(int(history.AttemptStatus), 51),
			put(int(history.RetriesSucceeded), 25),
		},
	},
	{
		"too_few_permits", calm,
		put(int(history.OK), 44550, int(history.Rejected), 450, int(history.Saturated), 450, int(history.SaturatedSeconds), 10),
		[]func(*history.Evidence){
			put(int(history.SaturatedSeconds), 9), put(int(history.Saturated), 449),
			func(e *history.Evidence) { e.Served[history.Bucket(250*ms)] += 1000 },
		},
	},
	{
		"too_many_permits", calm + "    bulkhead: {max_concurrent: 80}\n", func(*history.Evidence) {},
		[]func(*history.Evidence){
			func(e *history.Evidence) { e.Window = 10*time.Minute - second },
			each(func(_ int, s *history.Step) { s.Peak = 70 }),
			each(func(_ int, s *history.Step) { s.Held = 2 }),
		},
	},
	{
		"long_timeout", "    timeout: 2s\n", func(*history.Evidence) {},
		[]func(*history.Evidence){
			func(e *history.Evidence) { e.Attempts[history.Bucket(210*ms)] += 1000 },
			put(int(history.AttemptTimeout), 500), // the rest would have taken longer: nobody knows how long
			func(e *history.Evidence) { e.Attempts = history.Durations{}; e.Attempts[history.Bucket(200*ms)] = 199 },
		},
	},
	{
		"hidden_outage", calm, outage(60, 5, 5),
		[]func(*history.Evidence){outage(59, 5, 5), outage(60, 5, 6), each(func(i int, s *history.Step) {
			if i >= 4 {
				s.OK, s.Fallback = 0, 0
			}
		})},
	},
}

// TestThresholds: each finding needs all of its evidence.
func TestThresholds(t *testing.T) {
	fires := func(t *testing.T, c *edge, changes ...func(*history.Evidence)) bool {
		e := lived(50, mostly(100*ms, 200*ms, 45000))
		both(changes...)(e)
		a := ask(t, c.policy, e)
		return slices.Contains(kinds(&a), c.kind)
	}
	for _, c := range edges {
		t.Run(c.kind, func(t *testing.T) {
			if !fires(t, &c, c.enough) {
				t.Fatal("not found on enough evidence")
			}
			for i, nearly := range c.nearly {
				if fires(t, &c, c.enough, nearly) {
					t.Errorf("found on too little evidence, change %d", i)
				}
			}
		})
	}
	if len(edges) != 10 {
		t.Errorf("%d findings have their edges tested, want 10", len(edges))
	}
	if a := ask(t, calm, lived(50, mostly(100*ms, 200*ms, 45000))); len(a.Findings) != 0 {
		t.Errorf("the evidence that all edges start from has findings: %+v", a.Findings)
	}
}
