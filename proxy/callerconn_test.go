package proxy

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"testing"
)

// What a connection remembers tells whether a chunked request has a second
// length, or that this cannot be told.
func TestFraming(t *testing.T) {
	const (
		line = "POST /x HTTP/1.1\r\n"
		te   = "Transfer-Encoding: chunked\r\n"
		cl   = "content-LENGTH: 4\r\n"
	)
	for _, c := range []struct {
		name              string
		seen              string
		conflict, certain bool
	}{
		{"one", line + te + "\r\n0\r\n\r\n", false, true},
		{"both", line + cl + te + "\r\n0\r\n\r\n", true, true},
		{"both, the other way round", line + te + cl + "\r\n0\r\n\r\n", true, true},
		{"both, without carriage returns", "POST /x HTTP/1.1\n" + te + "Content-Length:4\n\n0\r\n\r\n", true, true},
		{"a similar name", line + te + "Content-Length-X: 4\r\n\r\n", false, false},
		{"behind one with a length", line + cl + "\r\nbody" + line + te + "\r\n", false, false},
		{"a body with a length in it", line + te + "\r\n13\r\n" + cl, false, false},
		{"both, and a body that repeats the head", line + cl + te + "\r\n13\r\n" + line + te + "\r\n", false, false},
		{"a head too long to remember", te + "X: y\r\n\r\n0\r\n\r\n", false, false},
	} {
		conn := &callerConn{}
		conn.n = copy(conn.recent[:], c.seen)
		r := &http.Request{Method: "POST", RequestURI: "/x", Proto: "HTTP/1.1"}
		if conflict, certain := conn.framing(r); conflict != c.conflict || certain != c.certain {
			t.Errorf("%s: conflict %v, certain %v", c.name, conflict, certain)
		}
	}
}

// A connection remembers enough of what was read, whatever the pieces.
func TestCallerConnRemembers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	sent := []byte(strings.Repeat("0123456789abcdef-", 8<<10))
	go func() {
		app, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = app.Write(sent)
		_ = app.Close()
	}()
	accepted, err := Listener(l).Accept()
	if err != nil {
		t.Fatal(err)
	}
	conn := accepted.(*callerConn)
	defer func() { _ = conn.Close() }()
	for read := 0; ; {
		n, err := conn.Read(make([]byte, 1+rand.IntN(12<<10)))
		read += n
		if want := min(read, readAhead+longestHead); conn.n < want || !bytes.HasSuffix(sent[:read], conn.recent[:conn.n]) {
			t.Fatalf("after %d bytes it remembers %d, or others", read, conn.n)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
