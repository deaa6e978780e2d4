package history

import (
	"math"
	"strconv"
	"time"
)

// Report is what the API shows: a series of steps for each dependency. All
// series have the length of State.
type Report struct {
	StepSeconds  int          `json:"step_seconds"`
	Until        string       `json:"until"` // the last step's end: RFC 3339, UTC, microseconds
	Dependencies []Dependency `json:"dependencies"`
}

// Dependency is the series of one dependency, oldest step first.
type Dependency struct {
	Name  string `json:"name"`
	State string `json:"state"` // a character a step: c, h, o, or . before the dependency ran

	// Calls a second.
	OK       Series `json:"ok"`
	Failed   Series `json:"failed"`
	Fallback Series `json:"fallback"`
	Rejected Series `json:"rejected"`
	Canceled Series `json:"canceled"`

	P50 Series `json:"p50_seconds"`
	P99 Series `json:"p99_seconds"`

	// The highest in the step.
	InUse   Series `json:"in_use"`
	Limit   Series `json:"limit"`
	Waiting Series `json:"waiting"`
}

// Series are numbers for JSON: with four digits, NaN as null.
type Series []float32

// MarshalJSON implements [encoding/json.Marshaler].
func (s Series) MarshalJSON() ([]byte, error) {
	text := append(make([]byte, 0, 2+4*len(s)), '[')
	for i, v := range s {
		if i > 0 {
			text = append(text, ',')
		}
		switch f := float64(v); {
		case math.IsNaN(f), math.IsInf(f, 0):
			text = append(text, "null"...)
		case f >= 1000:
			text = strconv.AppendFloat(text, f, 'f', 0, 64)
		default:
			text = strconv.AppendFloat(text, f, 'g', 4, 64)
		}
	}
	return append(text, ']'), nil
}

// timestamp is RFC 3339 with microseconds.
const timestamp = "2006-01-02T15:04:05.000000Z07:00"

// Report returns the steps of the named dependencies, in this order. One that
// has not been read yet was not running.
func (r *Recorder) Report(names ...string) Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	report := Report{StepSeconds: int(StepLength / time.Second), Until: r.ended.UTC().Format(timestamp), Dependencies: []Dependency{}}
	first, end := r.kept()
	for _, name := range names {
		t := r.tracks[name]
		if t == nil {
			t = &track{}
		}
		report.Dependencies = append(report.Dependencies, t.report(name, first, end))
	}
	return report
}

// report makes the series of the steps from first up to end.
func (t *track) report(name string, first, end int) Dependency {
	state := make([]byte, 0, end-first)
	var series [10]Series
	for i := range series {
		series[i] = make(Series, 0, end-first)
	}
	for n := first; n < end; n++ {
		s := t.steps[n%Steps]
		rate := func(calls uint32) float32 { return float32(calls) / s.Seconds }
		if s.State == 0 {
			s = Step{State: Absent, Seconds: 1, P50: float32(math.NaN()), P99: float32(math.NaN())}
		}
		state = append(state, s.State)
		for i, v := range [...]float32{
			rate(s.OK), rate(s.Failed), rate(s.Fallback), rate(s.Rejected), rate(s.Canceled),
			s.P50, s.P99, float32(s.InUse), float32(s.Limit), float32(s.Waiting),
		} {
			series[i] = append(series[i], v)
		}
	}
	return Dependency{
		Name: name, State: string(state),
		OK: series[0], Failed: series[1], Fallback: series[2], Rejected: series[3], Canceled: series[4],
		P50: series[5], P99: series[6], InUse: series[7], Limit: series[8], Waiting: series[9],
	}
}
