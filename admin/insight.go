package admin

import (
	"net/http"

	"sidecar/advice"
	"sidecar/history"
)

// Insight tells what the last quarter of an hour was like, and what follows
// from it. Its methods return false for an unknown name.
type Insight interface {
	// History returns the past of one dependency, or of all where name is empty.
	History(name string) (history.Report, bool)
	// Advice returns what should be changed at a dependency.
	Advice(name string) (advice.Advice, bool)
}

// history answers with the past of all dependencies, or of the one that the
// query names.
func (a *admin) history(w http.ResponseWriter, r *http.Request) {
	report, ok := a.Insight.History(r.URL.Query().Get("name"))
	if !ok {
		noDependency(w)
		return
	}
	writeJSON(w, report)
}

// advice answers with what should be changed at a dependency.
func (a *admin) advice(w http.ResponseWriter, r *http.Request) {
	advised, ok := a.Insight.Advice(r.PathValue("name"))
	if !ok {
		noDependency(w)
		return
	}
	writeJSON(w, advised)
}
