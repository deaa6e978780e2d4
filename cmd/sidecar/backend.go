package main

import (
	"go.uber.org/zap"

	"sidecar/proxy"
	"sidecar/resilience/breaker"
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

// Ready implements [sidecar/admin.Supervisor].
func (s *sidecar) Ready() bool { return s.supervisor.Ready() }

// EffectiveConfig implements [sidecar/admin.Supervisor].
func (s *sidecar) EffectiveConfig() ([]byte, error) { return s.supervisor.Config().Effective() }
