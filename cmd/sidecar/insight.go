package main

import (
	"sidecar/advice"
	"sidecar/history"
)

// History implements [sidecar/admin.Insight].
func (s *sidecar) History(name string) (history.Report, bool) {
	var names []string
	for _, d := range s.supervisor.Config().Dependencies {
		if name == "" || name == d.Name {
			names = append(names, d.Name)
		}
	}
	return s.history.Report(names...), name == "" || len(names) > 0
}

// Advice implements [sidecar/admin.Insight]. A dependency that has only just
// been added has no past yet, and no advice follows from that.
func (s *sidecar) Advice(name string) (advice.Advice, bool) {
	evidence, _ := s.history.Evidence(name)
	return advice.For(s.supervisor.Config(), name, &evidence)
}
