//go:build unix

package http1

import (
	"net"
	"testing"
)

// tcp returns both ends of a connection over the loopback interface.
func tcp(t *testing.T) (near, far *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	n, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	f, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = n.Close(), f.Close() })
	return n.(*net.TCPConn), f.(*net.TCPConn)
}

// The probe sees what has come on a real connection, takes nothing away, and
// does not wait.
func TestProbe(t *testing.T) {
	for name, happens := range map[string]func(near, far *net.TCPConn){
		"bytes":             func(_, far *net.TCPConn) { _, _ = far.Write([]byte("hello")) },
		"end":               func(_, far *net.TCPConn) { _ = far.CloseWrite() },
		"close":             func(_, far *net.TCPConn) { _ = far.Close() },
		"reset":             func(_, far *net.TCPConn) { _, _ = far.SetLinger(0), far.Close() },
		"close of this end": func(near, _ *net.TCPConn) { _ = near.Close() },
	} {
		near, far := tcp(t)
		p := newProbe(near)
		if !p.quiet() {
			t.Errorf("%s: not quiet before", name)
		}
		happens(near, far)
		for p.quiet() {
			continue // the kernel hands the news on in its own time
		}
		if p.quiet() {
			t.Errorf("%s: quiet again", name)
		}
		if name != "bytes" {
			continue
		}
		got := make([]byte, 9)
		if n, err := near.Read(got); string(got[:n]) != "hello" || err != nil {
			t.Errorf("%q, %v: the probe took something", got[:n], err)
		}
		if !p.quiet() {
			t.Error("not quiet when all has been read")
		}
	}
}

// A probe that began before its connection was closed looks at no descriptor
// that has been given to another since.
func TestProbeOfAClosedConnection(t *testing.T) {
	near, _ := tcp(t)
	p := newProbe(near)
	_ = near.Close()
	if p.quiet() {
		t.Error("a closed connection is quiet")
	}
	if newProbe(near).quiet() {
		t.Error("a connection that was closed before is quiet")
	}
	pipe, _ := net.Pipe()
	if !newProbe(pipe).quiet() {
		t.Error("nothing is known of a pipe")
	}
}
