package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// startTimeout bounds the wait for a peer's listeners.
const startTimeout = 20 * time.Second

// process is a running peer.
type process struct {
	cmd   *exec.Cmd
	out   *tail
	ended chan struct{}
}

// startProcess runs a command in a process group of its own and waits until
// all addresses accept connections.
func startProcess(ctx context.Context, args []string, addrs []string) (*process, error) {
	p := &process{
		cmd:   exec.Command(args[0], args[1:]...), //nolint:gosec // the peers' own commands
		out:   &tail{},
		ended: make(chan struct{}),
	}
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.WaitDelay = time.Second
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for _, addr := range addrs {
		if err := p.await(ctx, addr); err != nil {
			p.stop()
			return nil, fmt.Errorf("%s: %w\n%s", filepath.Base(args[0]), err, p.out)
		}
	}
	return p, nil
}

// await waits until an address accepts connections.
func (p *process) await(ctx context.Context, addr string) error {
	for {
		conn, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-p.ended:
			return errors.New("it ended at once")
		case <-ctx.Done():
			return fmt.Errorf("it does not listen: %w", err)
		case <-time.After(time.Millisecond):
		}
	}
}

// pid is the first of the peer's processes.
func (p *process) pid() int { return p.cmd.Process.Pid }

// stop kills the peer and all processes of its group: what a peer does about
// calls in flight is not compared, and some wait for a second or more.
func (p *process) stop() {
	_ = syscall.Kill(-p.pid(), syscall.SIGKILL)
	<-p.ended
}

// tailSize is how much of a peer's output is kept, for the error that it
// explains.
const tailSize = 4 << 10

// tail keeps the first bytes that are written to it. Only its process writes.
type tail struct{ kept bytes.Buffer }

// Write never fails.
func (t *tail) Write(b []byte) (int, error) {
	t.kept.Write(b[:min(len(b), tailSize-min(t.kept.Len(), tailSize))])
	return len(b), nil
}

// String returns what was kept.
func (t *tail) String() string { return t.kept.String() }

var _ io.Writer = (*tail)(nil)

// build compiles a command of the module in a folder, as it is released but for
// the flags.
func build(ctx context.Context, module, pkg, to string, flags ...string) error {
	args := append([]string{"build", "-trimpath", "-ldflags", "-s -w", "-o", to}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, pkg)...) //nolint:gosec // packages of ours
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w\n%s", pkg, err, out)
	}
	return nil
}
