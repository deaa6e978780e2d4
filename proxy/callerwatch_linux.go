package proxy

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// The states of a TCP connection whose other side has closed it, as the kernel
// numbers them (include/net/tcp_states.h).
const (
	tcpClosed    = 7
	tcpCloseWait = 8
)

// hasLeft reports whether the other side of a TCP connection has closed it,
// whatever it sent before and however much of that is still unread.
func hasLeft(conn net.Conn) bool {
	c, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return true // closed on this side
	}
	left := false
	err = raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		left = err == nil && (info.State == tcpClosed || info.State == tcpCloseWait)
	})
	return err != nil || left
}
