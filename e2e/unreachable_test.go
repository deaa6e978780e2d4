//go:build unix

package e2e

import (
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"
)

// refused returns a loopback address that refuses connections and that nobody
// else can take meanwhile.
func refused(t *testing.T) string {
	t.Helper()
	_, addr := bound(t)
	return addr
}

// blackhole returns a loopback address that answers no attempt to connect: its
// queue of connections is full, so the system drops what comes.
func blackhole(t *testing.T) string {
	t.Helper()
	fd, addr := bound(t)
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	for range 16 {
		c, err := net.DialTimeout("tcp", addr, 200*time.Millisecond)
		if err != nil {
			return addr
		}
		t.Cleanup(func() { c.Close() })
	}
	t.Skip("this system has no full queue of connections")
	return ""
}

// bound returns a socket bound to a free loopback address.
func bound(t *testing.T) (fd int, addr string) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	syscall.CloseOnExec(fd)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fd, fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
}
