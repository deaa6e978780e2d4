package e2e

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal is one end of a pseudo-terminal; a command has the other.
type terminal struct {
	screen output
	done   chan struct{}
}

// onTerminal starts a command on a terminal of this size and collects what it
// shows.
func onTerminal(t *testing.T, cmd *exec.Cmd, columns, rows uint16) *terminal {
	t.Helper()
	control, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	fd := int(control.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	err = errors.Join(err, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0),
		unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows}))
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	tty, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	defer tty.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &terminal{done: make(chan struct{})}
	go func() {
		defer close(s.done)
		defer control.Close()
		buffer := make([]byte, 4096)
		for {
			n, err := control.Read(buffer) // an error once nobody has the other end
			_, _ = s.screen.Write(buffer[:n])
			if err != nil {
				return
			}
		}
	}()
	return s
}

// TestCommand_StatusWatch: a live table on a terminal, the sickest first, in no
// more columns and rows than there are; Ctrl-C leaves the terminal as it was.
func TestCommand_StatusWatch(t *testing.T) {
	t.Parallel()
	u, well := newUpstream(t, fails(500)), newUpstream(t, ok)
	s := start(t, base+`
dependencies:
  - {name: well, listen: $B, upstream: "http://$U2", breaker: {consecutive_failures: 3}}
  - {name: sick, listen: $A, upstream: "http://$U1", breaker: {consecutive_failures: 3, cooldown: 60s}}
`, u, well)
	for range 3 {
		s.get("A", "/")
	}
	s.awaitState(t, "sick", "open", patience)
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	cmd := command(ctx, []string{"status", "--watch", "-c", s.path}, "TERM=xterm", "NO_COLOR=")
	term := onTerminal(t, cmd, 70, 6)
	if !poll(patience, func() bool { return strings.Count(term.screen.text(), "\x1b[H") >= 2 }) {
		t.Fatalf("shown: %q", term.screen.text())
	}
	s.get("B", "/")
	if !poll(patience, func() bool {
		return regexp.MustCompile(`well +.*closed.* (0\.[1-9]|1) `).MatchString(term.screen.text())
	}) {
		t.Fatalf("shown: %q", term.screen.text())
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("status --watch ended with %v, want exit code 0", err)
	}
	<-term.done
	shown := term.screen.text()
	if !strings.HasPrefix(shown, "\x1b[?1049h\x1b[?25l\x1b[?7l") || !strings.HasSuffix(shown, "\x1b[?7h\x1b[?25h\x1b[?1049l") {
		t.Errorf("the terminal is not left as it was: %q", shown)
	}
	for frame := range strings.SplitSeq(shown, "\x1b[H") {
		lines := strings.Split(regexp.MustCompile(`\x1b\[[?\d;]*[a-zA-Z]`).ReplaceAllString(frame, ""), "\r\n")
		if len(lines) < 3 {
			continue // before the first frame
		}
		if len(lines) > 6 || !strings.HasPrefix(lines[3], "sick") || !strings.HasPrefix(lines[4], "well") || !strings.Contains(lines[3], "s left)") {
			t.Errorf("a frame is\n%s", strings.Join(lines, "\n"))
		}
		for _, l := range lines {
			if n := len([]rune(l)); n > 70 {
				t.Errorf("a line of %d columns: %q", n, l)
			}
		}
	}
	if !strings.Contains(shown, "\x1b[1;31mopen (") || !strings.Contains(shown, "\x1b[32mclosed\x1b[0m") {
		t.Errorf("the states have no colours: %q", shown)
	}
}

// TestCommand_Colors: on a terminal, unless NO_COLOR or --color say otherwise.
func TestCommand_Colors(t *testing.T) {
	t.Parallel()
	bad := file(t, "bad.yaml", "timout: 1s\n")
	for _, c := range []struct {
		variable string
		args     []string
		want     bool
	}{
		{variable: "NO_COLOR=", want: true},
		{variable: "NO_COLOR=1"},
		{variable: "TERM=dumb"},
		{variable: "NO_COLOR=1", args: []string{"--color=always"}, want: true},
		{variable: "NO_COLOR=", args: []string{"--color=never"}},
	} {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		cmd := command(ctx, append([]string{"validate", bad}, c.args...), "TERM=xterm", c.variable)
		term := onTerminal(t, cmd, 80, 24)
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 1 {
			t.Errorf("validate: %v", err)
		}
		<-term.done
		cancel()
		if shown := term.screen.text(); strings.Contains(shown, "\x1b[") != c.want || !strings.Contains(shown, "^") {
			t.Errorf("%s %v: %q", c.variable, c.args, shown)
		}
	}
	if r := runCommand(t, []string{"validate", bad, "--color=always"}); !strings.Contains(r.err, "\x1b[1;31m^\x1b[0m") {
		t.Errorf("--color=always without a terminal: %q", r.err)
	}
}
