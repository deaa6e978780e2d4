//go:build unix

package http1

import (
	"io"
	"log"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard) // net/http's Transport tells of answers that nobody asked for
	goleak.VerifyTestMain(m)
}

// standIns are descriptors that look as a connection does: one on which nothing
// has come, and one whose other side has closed it.
var standIns = func() (d struct{ silent, ended uintptr }) {
	for _, fd := range []*uintptr{&d.silent, &d.ended} {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			panic(err)
		}
		*fd = uintptr(pair[0])
		if fd == &d.ended {
			_ = unix.Close(pair[1])
		}
	}
	return d
}()
