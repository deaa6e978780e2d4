package e2e

import (
	"os/exec"
	"slices"
	"syscall"
	"testing"
)

// run starts the process with the configuration file as it is now.
func (s *sidecar) run(t *testing.T) {
	t.Helper()
	line := slices.Concat(s.words, []string{binary, "run", "--config", s.path})
	cmd, exited := exec.Command(line[0], line[1:]...), make(chan struct{})
	cmd.Env = environment()
	cmd.Stderr = &s.output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.cmd, s.exited, s.err = cmd, exited, nil
	s.mu.Lock()
	s.stopped = false
	s.mu.Unlock()
	go func() {
		s.err = cmd.Wait()
		close(exited)
	}()
}

// kill ends the process as a crash does: at once, and in the middle of
// whatever it does.
func (s *sidecar) kill(t *testing.T) {
	t.Helper()
	s.signal(t, syscall.SIGKILL)
	<-s.exited
	s.client.CloseIdleConnections()
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
}

// restart starts a process that has ended again, at the same addresses, and
// returns once it is ready.
func (s *sidecar) restart(t *testing.T) {
	t.Helper()
	s.client.CloseIdleConnections()
	s.run(t)
	if !s.awaitReady(t) {
		t.Fatalf("the sidecar did not start again: %v\n%s", s.err, s.output.tail(20))
	}
}
