package main

import (
	"sidecar/proxy"
	"sidecar/resilience/breaker"
)

// The rest of what the admin asks of the process goes to the supervisor.

// Snapshots implements [sidecar/admin.Supervisor].
func (s *sidecar) Snapshots() []proxy.Snapshot { return s.supervisor.Snapshots() }

// Listen implements [sidecar/admin.Supervisor].
func (s *sidecar) Listen(name string) string { return s.supervisor.Listen(name) }

// Force implements [sidecar/admin.Supervisor].
func (s *sidecar) Force(name string, f breaker.Forced) error { return s.supervisor.Force(name, f) }

// Ready implements [sidecar/admin.Supervisor].
func (s *sidecar) Ready() bool { return s.supervisor.Ready() }

// EffectiveConfig implements [sidecar/admin.Supervisor].
func (s *sidecar) EffectiveConfig() ([]byte, error) { return s.supervisor.Config().Effective() }
