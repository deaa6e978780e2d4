package main

import (
	"errors"

	"go.uber.org/zap"

	"sidecar/admin"
	"sidecar/proxy"
	"sidecar/resilience/breaker"
	"sidecar/supervisor"
)

// The rest of what the admin asks of the process goes to the supervisor.

// Snapshots implements [sidecar/admin.Supervisor].
func (s *sidecar) Snapshots() []proxy.Snapshot { return s.supervisor.Snapshots() }

// Listen implements [sidecar/admin.Supervisor].
func (s *sidecar) Listen(name string) string { return s.supervisor.Listen(name) }

// Force implements [sidecar/admin.Supervisor]. The order is logged as such,
// also where it changes no state.
func (s *sidecar) Force(name string, f breaker.Forced) error {
	if err := s.supervisor.Force(name, f); err != nil {
		return err
	}
	s.log.Info("breaker set by an operator", zap.String("dependency", name), zap.Stringer("force", f))
	return nil
}

// Drill implements [sidecar/admin.Supervisor].
func (s *sidecar) Drill(name string, order proxy.Drill) error {
	return asAdminSays(s.supervisor.Drill(name, order))
}

// EndDrill implements [sidecar/admin.Supervisor].
func (s *sidecar) EndDrill(name string) error { return asAdminSays(s.supervisor.EndDrill(name)) }

// asAdminSays puts the admin's error for an unknown name in the place of the
// supervisor's.
func asAdminSays(err error) error {
	if errors.Is(err, supervisor.ErrUnknown) {
		return admin.ErrUnknown
	}
	return err
}

// Ready implements [sidecar/admin.Supervisor].
func (s *sidecar) Ready() bool { return s.supervisor.Ready() }

// EffectiveConfig implements [sidecar/admin.Supervisor].
func (s *sidecar) EffectiveConfig() ([]byte, error) { return s.supervisor.Config().Effective() }
