package proxy

import (
	"net"
	"testing"
)

// That a caller has left shows, whatever it sent before.
func TestHasLeft(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	app, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := app.Write([]byte("unread")); err != nil {
		t.Fatal(err)
	}
	if hasLeft(conn) {
		t.Error("has left, but is there")
	}
	_ = app.Close()
	for !hasLeft(conn) {
		continue // the kernel hands the news on in its own time
	}
	near, _ := net.Pipe()
	if hasLeft(near) {
		t.Error("nothing is known of a pipe")
	}
}
