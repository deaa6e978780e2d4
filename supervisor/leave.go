package supervisor

import (
	"context"
	"time"

	"sidecar/proxy"
)

// leave runs what something removed still has to do, within patience, and only
// until the process itself ends.
func (s *Supervisor) leave(patience time.Duration, do func(context.Context)) {
	s.leaving.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		go func() {
			select {
			case <-s.closing:
				cancel()
			case <-ctx.Done():
			}
		}()
		do(ctx)
	})
}

// retire lets a removed dependency's calls end and then forgets it, unless its
// name runs again by then.
func (s *Supervisor) retire(ctx context.Context, d *proxy.Dependency) {
	waitUntil(ctx, func() bool { return d.InFlight() == 0 })
	d.Close()
	s.lingers.Add(-1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.o.Removed != nil && !s.runs(d.Name()) {
		s.o.Removed(d.Name())
	}
}

// waitUntil polls, since what it waits for is told by counters of the hot
// path, which should not have to tell.
func waitUntil(ctx context.Context, done func() bool) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
