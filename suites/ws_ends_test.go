package suites

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/coder/websocket"
)

// closeCases close with each code that may go over the wire (RFC 6455 §7.4), by
// either side, with reasons of each length. 1005 stands for a close frame
// without a code.
func closeCases() (all []wsCase) {
	codes := []websocket.StatusCode{1000, 1001, 1002, 1003, 1005, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4000, 4999}
	for _, code := range codes {
		for _, reason := range []string{"", "bye ☺", strings.Repeat("r", 123)} {
			if code == websocket.StatusNoStatusRcvd && reason != "" {
				continue
			}
			title := fmt.Sprintf("close %d with a reason of %d", code, len(reason))
			all = append(all, wsCase{name: title + " by the client", target: "/echo", client: func(ctx context.Context, c *websocket.Conn, log *transcript) {
				exchange(ctx, c, log, websocket.MessageText, 10, 1)
				log.add("close: %s", ending(c.Close(code, reason)))
			}}, wsCase{
				name: title + " by the upstream", target: fmt.Sprintf("/close?code=%d&reason=%s", code, url.QueryEscape(reason)),
				client: func(ctx context.Context, c *websocket.Conn, log *transcript) {
					exchange(ctx, c, log, websocket.MessageText, 10, 1)
					_, _, err := c.Read(ctx)
					log.add("again: %s", ending(err))
				},
			})
		}
	}
	return all
}

// invalidCases break the protocol. The sidecar carries bytes and judges none:
// the upstream's answer must come back.
func invalidCases() (all []wsCase) {
	one := func(name string, frames ...frame) {
		all = append(all, wsCase{name: "invalid: " + name, target: "/echo", byFrames: func(c *rawConn, log *transcript) {
			_ = c.send(frames...)
			c.receive(log)
		}})
	}
	for _, code := range []uint16{0, 999, 1004, 1005, 1006, 1015, 2000, 2999, 5000, 65535} {
		one(fmt.Sprintf("close code %d", code), closeFrame(code, "x"))
	}
	for _, opcode := range []byte{3, 4, 5, 6, 7, 0xB, 0xC, 0xD, 0xE, 0xF} {
		one(fmt.Sprintf("opcode %#x", opcode), frame{opcode: opcode, payload: []byte("x")})
	}
	for _, rsv := range []byte{1, 2, 4, 7} {
		one(fmt.Sprintf("reserved bits %03b", rsv), frame{opcode: opText, rsv: rsv, payload: []byte("x")})
	}
	one("close of one byte", frame{opcode: opClose, payload: []byte{3}})
	one("ping of 126", frame{opcode: opPing, payload: pattern(126)})
	one("ping in fragments", frame{opcode: opPing, more: true})
	one("continuation of nothing", frame{payload: []byte("x")})
	one("message in a message", script("T1t1")...)
	all = append(all, wsCase{name: "invalid: unmasked", target: "/echo", byFrames: func(c *rawConn, log *transcript) {
		c.client = false
		_ = c.send(script("t1")...)
		c.receive(log)
	}})
	return all
}

// dropCases end without a close frame: dropped or reset by either side, at each
// point of a frame, and said to the end by one side only.
func dropCases() (all []wsCase) {
	for _, path := range []string{"/drop", "/reset", "/drop-head", "/drop-body", "/drop-first", "/reset-first"} {
		for _, words := range []string{"t0", "t2", "b6"} {
			all = append(all, wsCase{name: fmt.Sprintf("upstream %s after %s", path[1:], words), target: path, byFrames: func(c *rawConn, log *transcript) {
				_ = c.send(script(words)...) // perhaps too late
				c.receive(log)
			}})
		}
	}
	for _, bytes := range []int{0, 1, 3, 8, 100} {
		for name, end := range map[string]func(*rawConn){"drops": func(c *rawConn) { _ = c.Close() }, "resets": (*rawConn).reset} {
			all = append(all, wsCase{name: fmt.Sprintf("client %s after %d bytes of a frame", name, bytes), target: "/frames", byFrames: func(c *rawConn, log *transcript) {
				_ = c.send(script("b6")...)
				f, err := readFrame(c.r)
				log.add("%v, error: %t", f, err != nil)
				_, _ = c.Write(cutFrame.bytes()[:bytes])
				end(c)
			}})
		}
	}
	for _, words := range []string{"t1", "b6", "b7"} {
		all = append(all, wsCase{name: "upstream half-closes after " + words, target: "/half", byFrames: func(c *rawConn, log *transcript) {
			_ = c.send(script(words)...)
			c.receive(log)
			log.add("last words: %s", ending(c.send(script("t1P1b6")...)))
		}}, wsCase{name: "client half-closes after " + words, target: "/late", byFrames: func(c *rawConn, log *transcript) {
			_ = c.send(script(words)...)
			_ = c.CloseWrite()
			c.receive(log)
		}})
	}
	return all
}
