package advice

import (
	"sidecar/config"
	"sidecar/history"
)

// Advice is what an operator is told of one dependency.
type Advice struct {
	Name          string    `json:"name"`
	WindowSeconds int       `json:"window_seconds"` // what the evidence covers
	Calls         uint64    `json:"calls"`          // that ended in it
	Findings      []Finding `json:"findings"`       // warnings first
	Sizing        Sizing    `json:"sizing"`
}

// The severities of a finding.
const (
	Warning = "warning" // it has done harm in the time that was seen
	Info    = "info"    // it will, when the dependency gets sick
)

// Finding is a fault of the configuration that the evidence shows.
type Finding struct {
	Kind      string `json:"kind"` // see the package's documentation
	Severity  string `json:"severity"`
	Title     string `json:"title"`
	Evidence  string `json:"evidence"`  // the numbers that were seen
	Key       string `json:"key"`       // within the dependency; the process's begin with log or limits
	Current   string `json:"current"`   // as written in the configuration
	Suggested string `json:"suggested"` // likewise; empty where no value of ours would help
	Why       string `json:"why"`
}

// Sizing is what the sizes should be at the traffic seen.
type Sizing struct {
	PeakPerSecond float64      `json:"peak_per_second"` // calls begun in the busiest second while the circuit was closed
	P99Seconds    *float64     `json:"p99_seconds"`     // of the calls answered well, without their wait for a permit; nil if there were too few
	Suggestions   []Suggestion `json:"suggestions"`     // empty where everything fits
	Patch         string       `json:"patch"`           // a configuration file with all that is suggested, here and in the findings
}

// Suggestion is a size that does not fit.
type Suggestion struct {
	Key       string `json:"key"`
	Current   string `json:"current"`
	Suggested string `json:"suggested"`
	Why       string `json:"why"`
}

// subject is what the rules look at.
type subject struct {
	c *config.Config
	d *config.Dependency
	e *history.Evidence
	measures
}

// rules are the diagnoses, the gravest first. Each returns nil where there is
// nothing to say.
var rules = []func(*subject) *Finding{
	hiddenOutage, blindPredicate, failingRecovery, flapping, impatientCallers,
	retryStorm, tooFewPermits, neverDecides, longTimeout, tooManyPermits,
}

// For returns the advice on a dependency of a configuration, and false for a
// name that it does not have. It changes neither argument.
func For(c *config.Config, name string, e *history.Evidence) (Advice, bool) {
	s := &subject{c: c, e: e}
	for i := range c.Dependencies {
		if c.Dependencies[i].Name == name {
			s.d = &c.Dependencies[i]
		}
	}
	if s.d == nil {
		return Advice{}, false
	}
	s.measures = measure(e)
	a := Advice{Name: name, WindowSeconds: int(e.Window.Seconds()), Calls: s.calls, Findings: []Finding{}}
	for _, severity := range []string{Warning, Info} {
		for _, rule := range rules {
			if f := rule(s); f != nil && f.Severity == severity {
				a.Findings = append(a.Findings, *f)
			}
		}
	}
	a.Sizing = s.sizing(a.Findings)
	return a, true
}
