//go:build unix

package http1

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// probe looks at a connection without reading from it. A nil probe sees
// nothing.
type probe struct {
	raw  syscall.RawConn
	peek func(fd uintptr) bool
	none bool // of the last look: nothing was there
	byte [1]byte
}

func newProbe(n net.Conn) *probe {
	c, ok := n.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil // closed: the first write will tell
	}
	p := &probe{raw: raw}
	p.peek = func(fd uintptr) bool {
		_, _, err := unix.Recvfrom(int(fd), p.byte[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		p.none = err == unix.EAGAIN || err == unix.EINTR
		return true
	}
	return p
}

// quiet reports whether neither bytes nor an end have come.
func (p *probe) quiet() bool {
	if p == nil {
		return true
	}
	err := p.raw.Read(p.peek)
	return err == nil && p.none
}
