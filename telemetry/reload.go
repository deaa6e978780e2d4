package telemetry

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// reloads counts the reloads of the configuration. Safe for concurrent use.
type reloads struct {
	succeeded, failed atomic.Uint64
	loadedAt          atomic.Int64 // Unix time of the last success, in ns
	last              atomic.Pointer[reload]
}

// reload is one attempt to load the configuration.
type reload struct {
	at  time.Time
	err error // nil if it was applied
}

// Changes are what a reload changed: names of dependencies, and process scalars
// such as "log.level".
type Changes struct{ Added, Removed, Changed, Settings []string }

// fields are the lists that are not empty.
func (c Changes) fields() []zap.Field {
	var all []zap.Field
	for _, list := range []struct {
		name  string
		names []string
	}{{"added", c.Added}, {"removed", c.Removed}, {"changed", c.Changed}, {"settings", c.Settings}} {
		if len(list.names) > 0 {
			all = append(all, zap.Strings(list.name, list.names))
		}
	}
	return all
}

// ReloadSucceeded counts, logs and publishes that a new configuration has been
// applied. The start of the program is no reload.
func (t *Telemetry) ReloadSucceeded(now time.Time, c Changes) {
	t.reloads.loadedAt.Store(now.UnixNano())
	t.reloads.last.Store(&reload{at: now})
	t.reloads.succeeded.Add(1)
	t.log.Info("configuration reloaded", c.fields()...)
	t.events.reload(now, c, nil)
}

// ReloadFailed counts, logs and publishes that a new configuration was refused
// and the running one stays. The error must not hold secrets.
func (t *Telemetry) ReloadFailed(now time.Time, err error) {
	t.reloads.last.Store(&reload{at: now, err: err})
	t.reloads.failed.Add(1)
	t.log.Error("configuration not reloaded", zap.String("error", oneLine(err)))
	t.events.reload(now, Changes{}, err)
}

// LastReload returns when the configuration was last loaded or should have
// been, and why it was not applied, nil if it was. At first it tells of the
// program's start.
func (t *Telemetry) LastReload() (time.Time, error) {
	r := t.reloads.last.Load()
	return r.at, r.err
}

// collect sends the series of the configuration.
func (r *reloads) collect(ch chan<- prometheus.Metric) {
	successful := 1.0
	if r.last.Load().err != nil {
		successful = 0
	}
	ch <- reloadSuccessful.at(successful)
	ch <- reloadTimestamp.at(float64(r.loadedAt.Load()) / 1e9)
	ch <- reloadsTotal.at(float64(r.succeeded.Load()), "success")
	ch <- reloadsTotal.at(float64(r.failed.Load()), "failure")
}

// oneLine joins the lines of an error: all faults of a file come in one.
func oneLine(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}
