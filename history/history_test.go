package history

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"go.uber.org/goleak"

	"sidecar/resilience/breaker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestTrackIsBounded: a dependency takes 30 KB at most, and one that is no
// longer read takes nothing.
func TestTrackIsBounded(t *testing.T) {
	if size := unsafe.Sizeof(track{}); size > 30<<10 {
		t.Errorf("a track takes %d bytes, want at most 30 KB", size)
	}
	n := 0
	r := New(time.Now(), func() []*Reading {
		n++
		return []*Reading{{Name: fmt.Sprint(n)}, {Name: "stays"}}
	})
	for i := range 5000 {
		r.read(time.Now().Add(time.Duration(i) * time.Second))
	}
	if len(r.tracks) != 2 {
		t.Errorf("%d tracks after thousands of names, want 2", len(r.tracks))
	}
}

// film is a dependency whose readings a test writes.
type film struct {
	now   Reading
	start time.Time
	r     *Recorder
	n     int
}

func newFilm() *film {
	f := &film{start: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), now: Reading{Name: "a", Limit: 20, Permits: 20}}
	f.r = New(f.start, func() []*Reading {
		reading := f.now
		return []*Reading{&reading}
	})
	return f
}

// seconds lets time go by, with a change before each reading.
func (f *film) seconds(n int, change func(*Reading)) {
	for range n {
		if change != nil {
			change(&f.now)
		}
		f.n++
		f.r.read(f.start.Add(time.Duration(f.n) * time.Second))
	}
}

// state puts the circuit into a state at the present second.
func (f *film) state(s breaker.State) {
	if f.now.State != s {
		f.now.State, f.now.Since = s, f.start.Add(time.Duration(f.n)*time.Second)
		f.now.Counts[ToClosed+Counter(s)]++
	}
}

func TestReportShowsSteps(t *testing.T) {
	f := newFilm()
	f.seconds(5, func(r *Reading) {
		r.Counts[OK] += 10
		r.Calls[Bucket(100*time.Millisecond)] += 10
		r.InUse = 3
	})
	f.now.InUse, f.now.Waiting = 7, 2
	f.seconds(1, nil)
	f.now.InUse, f.now.Waiting = 1, 0
	f.state(breaker.Open)
	f.seconds(1, func(r *Reading) { r.Counts[Rejected] += 5 })
	f.state(breaker.Closed)
	f.seconds(3, func(r *Reading) { r.Counts[Fallback]++ })
	f.state(breaker.HalfOpen)
	f.seconds(6, nil) // the last one is no whole step yet
	got, err := json.Marshal(f.r.Report("a"))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"step_seconds":5,"until":"2026-01-02T03:04:20.000000Z","dependencies":[{"name":"a","state":"coh",` +
		`"ok":[10,0,0],"failed":[0,0,0],"fallback":[0,0.6,0],"rejected":[0,1,0],"canceled":[0,0,0],` +
		`"p50_seconds":[0.09647,null,null],"p99_seconds":[0.09647,null,null],` +
		`"in_use":[3,7,1],"limit":[20,20,20],"waiting":[0,2,0]}]}`
	if string(got) != want {
		t.Errorf("report is\n%s\nwant\n%s", got, want)
	}
	if all := f.r.Report("b", "a"); len(all.Dependencies) != 2 || all.Dependencies[0].State != "..." || all.Dependencies[1].State != "coh" {
		t.Errorf("the report of two is %+v", all)
	}
	if none := f.r.Report(); none.Dependencies == nil || len(none.Dependencies) != 0 {
		t.Errorf("the report of none is %+v", none)
	}
}

// TestAStateBetweenReadingsShows: a circuit that opened and closed within a
// second was open.
func TestAStateBetweenReadingsShows(t *testing.T) {
	f := newFilm()
	f.seconds(5, func(r *Reading) {
		r.Counts[ToOpen]++
		r.Counts[ToHalfOpen]++
		r.Counts[ToClosed]++
	})
	f.seconds(5, func(r *Reading) { r.Counts[ToHalfOpen]++ })
	if report := f.r.Report("a"); report.Dependencies[0].State != "oh" {
		t.Errorf("states are %q, want oh", report.Dependencies[0].State)
	}
}

// TestHistoryForgets: after a quarter of an hour a step is gone, and after that
// and a span at most what was counted in it.
func TestHistoryForgets(t *testing.T) {
	f := newFilm()
	f.seconds(5, func(r *Reading) { r.Counts[Failed]++ })
	f.seconds(Steps*5-5, nil)
	report := f.r.Report("a")
	if d := report.Dependencies[0]; len(d.State) != Steps || len(d.OK) != Steps || d.Failed[0] != 1 {
		t.Errorf("%d steps, the oldest with %v failures a second, want %d and 1", len(d.State), d.Failed[0], Steps)
	}
	if e, _ := f.r.Evidence("a"); e.Counts[Failed] != 5 || e.Window != 15*time.Minute {
		t.Errorf("%d failures in %v, want 5 in 15m", e.Counts[Failed], e.Window)
	}
	f.seconds(5, nil)
	if report := f.r.Report("a"); len(report.Dependencies[0].State) != Steps || report.Dependencies[0].Failed[0] != 0 {
		t.Error("a step of more than a quarter of an hour ago is kept")
	}
	e, _ := f.r.Evidence("a")
	if e.Counts[Failed] != 0 || e.Window != 12*time.Minute+5*time.Second || len(e.Steps) != Steps {
		t.Errorf("%d failures in %v of %d steps, want none in 12m5s of %d", e.Counts[Failed], e.Window, len(e.Steps), Steps)
	}
}

// TestALateDependency has steps from before it ran.
func TestALateDependency(t *testing.T) {
	var readings []*Reading
	now := time.Now()
	r := New(now, func() []*Reading { return readings })
	tick := func(n int) {
		for range n {
			now = now.Add(time.Second)
			r.read(now)
		}
	}
	if d := r.Report("a").Dependencies[0]; d.State != "" || d.OK == nil {
		t.Errorf("a new report is %+v", d)
	}
	readings = []*Reading{{Name: "b"}}
	tick(10)
	readings = []*Reading{{Name: "b"}, {Name: "a"}}
	tick(5)
	report := r.Report("b", "a")
	if d := report.Dependencies; d[0].Name != "b" || d[0].State != "ccc" || d[1].State != "..c" || !math.IsNaN(float64(d[1].P50[0])) {
		t.Errorf("report is %+v", d)
	}
	if e, _ := r.Evidence("a"); len(e.Steps) != 1 {
		t.Errorf("evidence of %d steps, want 1", len(e.Steps))
	}
}

// TestANewDependencyOfTheSameName counts from 0: nothing falls below 0.
func TestANewDependencyOfTheSameName(t *testing.T) {
	f := newFilm()
	f.seconds(5, func(r *Reading) { r.Counts[OK] += 100 })
	f.now = Reading{Name: "a", Limit: 20, Permits: 20}
	f.seconds(5, func(r *Reading) { r.Counts[OK]++ })
	if e, _ := f.r.Evidence("a"); e.Counts[OK] != 505 || e.Steps[1].OK != 5 {
		t.Errorf("counted %d, %d in the last step, want 505 and 5", e.Counts[OK], e.Steps[1].OK)
	}
}

func TestPeakAndHeld(t *testing.T) {
	f := newFilm()
	f.seconds(2, func(r *Reading) { r.Counts[OK] += 10; r.InUse = 4 })
	f.seconds(1, func(r *Reading) { r.InFlight = 30; r.InUse = 20 }) // begun, not ended
	f.seconds(1, func(r *Reading) { r.InFlight = 0; r.Counts[OK] += 35; r.InUse = 2 })
	f.seconds(1, nil)
	e, _ := f.r.Evidence("a")
	if s := e.Steps[0]; s.Peak != 30 || s.Held != 2 || s.InUse != 20 {
		t.Errorf("peak %v, held %d of at most %d, want 30, 2 of 20", s.Peak, s.Held, s.InUse)
	}
}

// TestSaturation counts refusals only while the dependency is well.
func TestSaturation(t *testing.T) {
	f := newFilm()
	refuse := func(r *Reading) { r.Counts[RefusedQueueFull] += 2; r.Counts[RefusedQueueTimeout]++ }
	f.seconds(1, nil)
	f.seconds(4, refuse)
	f.seconds(3, func(r *Reading) { refuse(r); r.Counts[AttemptTimeout]++ })
	f.now.Limit = 10 // a ramp
	f.seconds(3, refuse)
	f.now.Limit = 20
	f.seconds(1, nil)
	f.state(breaker.Open)
	f.seconds(3, refuse)
	if e, _ := f.r.Evidence("a"); e.Counts[Saturated] != 12 || e.Counts[SaturatedSeconds] != 4 {
		t.Errorf("saturated by %d calls in %d seconds, want 12 in 4", e.Counts[Saturated], e.Counts[SaturatedSeconds])
	}
}

// TestSpells are the times between a recovery and the next opening.
func TestSpells(t *testing.T) {
	f := newFilm()
	f.seconds(10, nil)
	for range 20 {
		f.state(breaker.Open) // the first spell began without a recovery
		f.seconds(2, nil)
		f.state(breaker.HalfOpen)
		f.seconds(1, nil)
		f.state(breaker.Closed)
		f.seconds(7, nil)
	}
	e, _ := f.r.Evidence("a")
	if len(e.Spells) != 16 {
		t.Fatalf("%d spells, want the last 16", len(e.Spells))
	}
	for _, s := range e.Spells {
		if s.Lasted != 7*time.Second {
			t.Errorf("a spell of %v, want 7s", s.Lasted)
		}
	}
	f.now.Forced = true
	f.state(breaker.Open)
	f.seconds(2, nil)
	f.now.Forced = false
	f.state(breaker.Closed)
	f.seconds(2, nil)
	f.state(breaker.Open)
	f.seconds(2, nil)
	if e, _ := f.r.Evidence("a"); len(e.Spells) != 16 || e.Spells[15].Lasted != 7*time.Second {
		t.Errorf("an operator's order made a spell: %+v", e.Spells)
	}
	f.seconds(15*60, nil)
	if e, _ := f.r.Evidence("a"); len(e.Spells) != 0 {
		t.Errorf("%d spells of long ago", len(e.Spells))
	}
}

// TestRun reads once a second until its end.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		n := 0
		r := New(time.Now(), func() []*Reading { n++; return []*Reading{{Name: "a"}} })
		done := make(chan struct{})
		go func() { defer close(done); r.Run(ctx) }()
		time.Sleep(60*time.Second + time.Millisecond)
		stop()
		<-done
		if report := r.Report("a"); n != 60 || report.Dependencies[0].State != strings.Repeat("c", 12) {
			t.Errorf("%d readings in a minute, states %q", n, report.Dependencies[0].State)
		}
	})
}
