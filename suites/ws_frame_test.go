package suites

import (
	"bufio"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Opcodes of RFC 6455 §5.2.
const (
	opContinuation = 0x0
	opText         = 0x1
	opBinary       = 0x2
	opClose        = 0x8
	opPing         = 0x9
	opPong         = 0xA
)

// frame is one WebSocket frame, RFC 6455 §5.2, valid or not.
type frame struct {
	more    bool // FIN is not set
	rsv     byte // RSV1 is 4, RSV2 is 2, RSV3 is 1
	opcode  byte
	masked  bool
	wide    int // bytes of the extended length where more than needed: 2 or 8
	payload []byte
}

// maskingKey serves for all frames: nobody is to be protected from anybody.
var maskingKey = [4]byte{0x12, 0x34, 0x56, 0x78}

// bytes encodes the frame.
func (f frame) bytes() []byte {
	first := f.rsv<<4 | f.opcode
	if !f.more {
		first |= 0x80
	}
	b := []byte{first}
	switch n := len(f.payload); {
	case f.wide == 8 || n > 65535:
		b = binary.BigEndian.AppendUint64(append(b, 127), uint64(n))
	case f.wide == 2 || n > 125:
		b = binary.BigEndian.AppendUint16(append(b, 126), uint16(n))
	default:
		b = append(b, byte(n))
	}
	if !f.masked {
		return append(b, f.payload...)
	}
	b[1] |= 0x80
	b = append(b, maskingKey[:]...)
	for i, p := range f.payload {
		b = append(b, p^maskingKey[i%4])
	}
	return b
}

// String describes the frame by what must arrive: its payload by length and
// checksum.
func (f frame) String() string {
	return fmt.Sprintf("frame fin=%t rsv=%d opcode=%#x masked=%t wide=%d %s", !f.more, f.rsv, f.opcode, f.masked, f.wide, sum(f.payload))
}

func sum(p []byte) string { return fmt.Sprintf("%d bytes, crc %08x", len(p), crc32.ChecksumIEEE(p)) }

// readFrame decodes the next frame.
func readFrame(r io.Reader) (f frame, err error) {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return f, err
	}
	f.more, f.rsv, f.opcode = head[0]&0x80 == 0, head[0]>>4&7, head[0]&0xF
	f.masked = head[1]&0x80 != 0
	length, wide := uint64(head[1]&0x7F), map[byte]int{126: 2, 127: 8}[head[1]&0x7F]
	if wide > 0 {
		var extended [8]byte
		if _, err := io.ReadFull(r, extended[8-wide:]); err != nil {
			return f, err
		}
		length = binary.BigEndian.Uint64(extended[:])
		if wide == 2 && length < 126 || wide == 8 && length < 65536 {
			f.wide = wide
		}
	}
	var key [4]byte
	if f.masked {
		if _, err := io.ReadFull(r, key[:]); err != nil {
			return f, err
		}
	}
	if length > 16<<20 {
		return f, errors.New("a frame larger than any that is sent here")
	}
	f.payload = make([]byte, length)
	_, err = io.ReadFull(r, f.payload)
	if f.masked {
		for i := range f.payload {
			f.payload[i] ^= key[i%4]
		}
	}
	return f, err
}

// closeFrame is a close frame with a code and a reason, RFC 6455 §5.5.1.
func closeFrame(code uint16, reason string) frame {
	return frame{opcode: opClose, payload: append(binary.BigEndian.AppendUint16(nil, code), reason...)}
}

// rawConn is a connection after a WebSocket handshake, seen as frames.
type rawConn struct {
	*net.TCPConn
	r      io.Reader
	client bool
}

// send writes frames in one go; those of a client are masked.
func (c *rawConn) send(frames ...frame) error {
	var b []byte
	for _, f := range frames {
		f.masked = c.client
		b = append(b, f.bytes()...)
	}
	_, err := c.Write(b)
	return err
}

// receive logs frames until the peer ends, and returns how many came. A frame
// that breaks off shows as none: how much of it had come is a matter of time.
func (c *rawConn) receive(log *transcript) {
	for {
		f, err := readFrame(c.r)
		if err != nil {
			log.add("the peer ended")
			return
		}
		log.add("%v", f)
	}
}

// reset drops the connection as a crashed peer would.
func (c *rawConn) reset() {
	_ = c.SetLinger(0)
	_ = c.Close()
}

const handshakeKey = "dGhlIHNhbXBsZSBub25jZQ==" // the example of RFC 6455 §1.3

// acceptKey is the answer to a key, RFC 6455 §4.2.2.
func acceptKey(key string) string {
	h := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(h[:])
}

// rawDial makes a handshake by hand.
func rawDial(ctx context.Context, address, target, id string) (*rawConn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(testTimeout))
	_, _ = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\n%s: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n\r\n", target, address, caseHeader, id, handshakeKey)
	r := bufio.NewReader(conn)
	res, err := http.ReadResponse(r, nil)
	if err == nil && (res.StatusCode != http.StatusSwitchingProtocols || res.Header.Get("Sec-WebSocket-Accept") != acceptKey(handshakeKey)) {
		err = fmt.Errorf("handshake: %s %v", res.Status, res.Header)
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return &rawConn{TCPConn: conn.(*net.TCPConn), r: r, client: true}, nil
}

// transcript is what one side of a case saw. It is safe for concurrent use.
type transcript struct {
	mu    sync.Mutex // guards lines
	lines []string
}

func (t *transcript) add(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, fmt.Sprintf(format, args...))
}

func (t *transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.lines, "\n")
}
