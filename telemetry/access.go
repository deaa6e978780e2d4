package telemetry

import (
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"sidecar/proxy"
	"sidecar/resilience/breaker"
)

// Access says which calls are logged.
type Access int32

// The values of log.access.
const (
	AccessOff      Access = iota // none
	AccessDegraded               // every call whose outcome is not ok
	AccessAll                    // every call
)

// maxLoggedPath bounds the part of a path that is logged, in bytes.
const maxLoggedPath = 2048

// ParseAccess returns the Access of a word: "off", "degraded" or "all".
func ParseAccess(word string) (Access, error) {
	switch word {
	case "off":
		return AccessOff, nil
	case "degraded":
		return AccessDegraded, nil
	case "all":
		return AccessAll, nil
	}
	return AccessOff, fmt.Errorf("unknown access log %q: use off, degraded or all", word)
}

// SetAccess changes which calls are logged, from the next one on.
func (t *Telemetry) SetAccess(a Access) { t.access.Store(int32(a)) }

// wanted reports whether a call is to be logged.
func (t *Telemetry) wanted(c *proxy.Call) bool {
	switch Access(t.access.Load()) {
	case AccessAll:
		return true
	case AccessDegraded:
		return c.Outcome != proxy.OutcomeOK
	}
	return false
}

// logCall writes the line of one call.
func (t *Telemetry) logCall(c *proxy.Call) {
	level := zapcore.WarnLevel
	if c.Outcome == proxy.OutcomeOK || c.Outcome == proxy.OutcomeCanceled {
		level = zapcore.InfoLevel
	}
	entry := t.log.Check(level, "call")
	if entry == nil {
		return
	}
	fields := make([]zap.Field, 0, 14)
	fields = append(
		fields,
		zap.String("dependency", c.Dependency),
		zap.String("method", c.Method),
		zap.String("path", loggedPath(c.Path)),
		zap.Int("status", c.Status),
		zap.String("outcome", string(c.Outcome)),
		zap.Int("attempts", c.Attempts),
		zap.Float64("duration_ms", milliseconds(c.Duration)),
	)
	if c.Reason != "" {
		fields = append(fields, zap.String("reason", string(c.Reason)))
	}
	if c.Source != "" {
		fields = append(fields, zap.String("source", string(c.Source)))
	}
	if c.Source == proxy.SourceStale {
		fields = append(fields, zap.Int64("age", int64(c.Age/time.Second)))
	}
	if c.Denied != "" {
		fields = append(fields, zap.String("retry_denied", string(c.Denied)))
	}
	if c.Waited > 0 {
		fields = append(fields, zap.Float64("waited_ms", milliseconds(c.Waited)))
	}
	if c.Drill != "" {
		fields = append(fields, zap.String("drill", c.Drill))
	}
	entry.Write(fields...)
}

// logTransition writes the line of one change of a circuit's state.
func (t *Telemetry) logTransition(name string, tr *breaker.Transition) {
	level := zapcore.InfoLevel
	if tr.To == breaker.Open {
		level = zapcore.WarnLevel
	}
	t.log.Log(level, "breaker changed", transitionFields(name, tr)...)
}

// loggedPath returns the part of a path that is logged: no query, whatever
// comes in, and no more than maxLoggedPath bytes.
func loggedPath(path string) string {
	path, _, _ = strings.Cut(path, "?")
	if len(path) > maxLoggedPath {
		return path[:maxLoggedPath] + "…"
	}
	return path
}

// milliseconds returns a duration in milliseconds, exact to the microsecond.
func milliseconds(d time.Duration) float64 {
	return float64(d.Round(time.Microsecond)) / float64(time.Millisecond)
}
