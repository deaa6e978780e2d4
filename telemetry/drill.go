package telemetry

import (
	"time"

	"go.uber.org/zap"

	"sidecar/proxy"
)

// DrillChanged implements [proxy.Observer]. The beginning and the end of a
// drill are warnings: what the log tells in between was made on purpose.
func (t *Telemetry) DrillChanged(name string, c proxy.DrillChange) {
	fields := []zap.Field{
		zap.String("dependency", name),
		zap.Stringer("fault", c.Drill),
		zap.Float64("share", c.Share),
		zap.Time("until", c.Until),
	}
	if c.Ended == "" {
		t.log.Warn("drill begun through the admin listener: faults are injected", fields...)
	} else {
		t.log.Warn("drill ended", append(fields, zap.String("reason", string(c.Ended)), zap.Uint64("injected", c.Injected))...)
	}
	t.events.drill(name, &c)
}

// drill publishes the beginning or the end of a drill.
func (e *Events) drill(dependency string, c *proxy.DrillChange) {
	var ended *proxy.DrillEnd
	if c.Ended != "" {
		ended = &c.Ended
	}
	e.publish("drill", struct {
		At         time.Time       `json:"at"`
		Dependency string          `json:"dependency"`
		Ended      *proxy.DrillEnd `json:"ended"`
		Fault      string          `json:"fault"`
		Share      float64         `json:"share"`
		Until      time.Time       `json:"until"`
		Injected   uint64          `json:"injected"`
	}{c.At.UTC(), dependency, ended, c.String(), c.Share, c.Until.UTC(), c.Injected})
}

// active is the gauge of a drill: 1 while one runs.
func active(d *proxy.DrillSnapshot) float64 {
	if d == nil {
		return 0
	}
	return 1
}
