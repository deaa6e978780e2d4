package supervisor

import (
	"errors"

	"sidecar/proxy"
)

// ErrDrillsOff is returned for a drill that the configuration does not allow.
var ErrDrillsOff = errors.New("drills are off; set admin.drills to true and reload")

// errDraining refuses what would only disturb the last calls.
var errDraining = errors.New("the process is draining; begin the drill on its successor")

// Drill begins a drill on a dependency, in the place of the one that runs. Its
// errors are [ErrDrillsOff], [ErrUnknown], and that the process is draining.
// No configuration is applied meanwhile: a drill cannot slip past the one that
// forbids it.
func (s *Supervisor) Drill(name string, order proxy.Drill) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.current.Load()
	if now.config == nil || !now.config.Admin.Drills {
		return ErrDrillsOff
	}
	d, err := s.find(name)
	if err != nil {
		return err
	}
	if s.draining.Load() {
		return errDraining
	}
	d.proxy.Drill(order)
	return nil
}

// EndDrill ends the drill that runs on a dependency, if any. Its only error is
// [ErrUnknown].
func (s *Supervisor) EndDrill(name string) error {
	d, err := s.find(name)
	if err != nil {
		return err
	}
	d.proxy.EndDrill(proxy.DrillStopped)
	return nil
}

// endDrills ends every drill: the process drains.
func (s *Supervisor) endDrills() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.current.Load().dependencies {
		d.proxy.EndDrill(proxy.DrillShutdown)
	}
}
