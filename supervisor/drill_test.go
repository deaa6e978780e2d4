package supervisor

import (
	"errors"
	"testing"
	"time"

	"sidecar/proxy"
)

// drilled reports which dependencies have a drill that runs.
func (r *rig) drilled() map[string]bool {
	running := map[string]bool{}
	for _, s := range r.s.Snapshots() {
		running[s.Name] = s.Drill != nil
	}
	return running
}

// A drill needs the configuration's leave, survives reloads that have nothing
// to do with it, and ends with the leave, the upstream or the dependency.
func TestDrillAndReloads(t *testing.T) {
	r := newRig(t)
	p := r.ports(6)
	a, b := r.upstream("A"), r.upstream("B")
	order := proxy.Drill{Fault: proxy.FaultError, Status: 503, Share: 1, For: time.Hour}
	apply := func(drills bool, dependencies string) {
		t.Helper()
		c := r.file(p, dependencies)
		c.Admin.Drills = drills
		r.apply(c)
	}
	if err := r.s.Drill("a", order); !errors.Is(err, ErrDrillsOff) {
		t.Errorf("before any configuration: %v", err)
	}
	apply(false, dep("a", p[2], a))
	if err := r.s.Drill("a", order); !errors.Is(err, ErrDrillsOff) {
		t.Errorf("without leave: %v", err)
	}
	all := dep("a", p[2], a) + dep("b", p[3], b) + dep("c", p[4], a)
	apply(true, all)
	if err := r.s.Drill("nobody", order); !errors.Is(err, ErrUnknown) {
		t.Errorf("a drill of nobody: %v", err)
	}
	if err := r.s.EndDrill("nobody"); !errors.Is(err, ErrUnknown) {
		t.Errorf("the end of nobody's: %v", err)
	}
	for _, name := range []string{"a", "b", "c"} {
		if err := r.s.Drill(name, order); err != nil {
			t.Fatal(err)
		}
	}
	apply(true, dep("a", p[2], a, "timeout: 3s")+dep("b", p[3], a)+dep("c", p[4], a))
	if got := r.drilled(); !got["a"] || got["b"] || !got["c"] {
		t.Errorf("after a reload drills run: %v; only b's upstream was changed", got)
	}
	if err := r.s.EndDrill("c"); err != nil || r.drilled()["c"] {
		t.Errorf("c could not be stopped: %v", err)
	}
	apply(false, all)
	if r.drilled()["a"] {
		t.Error("a drill outlived its leave")
	}
	apply(true, all)
	if r.drilled()["a"] {
		t.Error("a drill came back")
	}
	if err := r.s.Drill("a", order); err != nil {
		t.Fatal(err)
	}
	gone := r.s.current.Load().dependencies[0].proxy
	apply(true, dep("b", p[3], b))
	if gone.Snapshot().Drill != nil {
		t.Error("a removed dependency's drill goes on")
	}
}

// The app's last calls are left in peace.
func TestDrainEndsDrills(t *testing.T) {
	r := newRig(t)
	p := r.ports(3)
	c := r.file(p, dep("a", p[2], r.upstream("A")))
	c.Admin.Drills = true
	r.apply(c)
	order := proxy.Drill{Fault: proxy.FaultRefuse, Share: 1, For: time.Hour}
	if err := r.s.Drill("a", order); err != nil {
		t.Fatal(err)
	}
	r.s.Drain(t.Context())
	r.wants(p[2], "A")
	if err := r.s.Drill("a", order); err == nil {
		t.Error("a drill began in a drain")
	}
}
