package suites

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/coder/websocket"
)

// wsCase is one WebSocket connection: what the upstream does, and what the
// client does.
type wsCase struct {
	name     string
	target   string                 // path and query, see [upstream]
	dial     *websocket.DialOptions // of the client; nil for the default
	client   func(ctx context.Context, c *websocket.Conn, log *transcript)
	byFrames func(c *rawConn, log *transcript) // instead of client
}

// wsCases is the whole table.
func wsCases() (all []wsCase) {
	for _, group := range []func() []wsCase{
		echoCases, fragmentCases, frameCases, pushCases, pingCases, closeCases,
		invalidCases, dropCases, handshakeCases, refusalCases,
	} {
		all = append(all, group()...)
	}
	return all
}

// echoCases send each size in both kinds, with and without compression, twice,
// so that a compression context is used again.
func echoCases() (all []wsCase) {
	for _, compress := range []string{"no", "takeover", "fresh"} {
		for _, kind := range []websocket.MessageType{websocket.MessageText, websocket.MessageBinary} {
			for _, n := range lengths {
				all = append(all, wsCase{
					name:   fmt.Sprintf("echo %v of %d, compression %s", kind, n, compress),
					target: "/echo?compress=" + compress,
					dial:   &websocket.DialOptions{CompressionMode: compression(compress)},
					client: func(ctx context.Context, c *websocket.Conn, log *transcript) {
						exchange(ctx, c, log, kind, n, 1)
						exchange(ctx, c, log, kind, n, 1)
						log.add("close: %s", ending(c.Close(websocket.StatusNormalClosure, "")))
					},
				})
			}
		}
	}
	return all
}

// fragmentCases send messages in fragments, both ways.
func fragmentCases() (all []wsCase) {
	for _, compress := range []string{"no", "takeover"} {
		for _, kind := range []websocket.MessageType{websocket.MessageText, websocket.MessageBinary} {
			for _, n := range []int{0, 1, 126, 65536, 1 << 20} {
				for _, fragments := range []int{2, 3, 16} {
					all = append(all, wsCase{
						name:   fmt.Sprintf("%v of %d in %d fragments, compression %s", kind, n, fragments, compress),
						target: fmt.Sprintf("/echo?compress=%s&fragments=%d", compress, fragments),
						dial:   &websocket.DialOptions{CompressionMode: compression(compress)},
						client: func(ctx context.Context, c *websocket.Conn, log *transcript) {
							exchange(ctx, c, log, kind, n, fragments)
							log.add("close: %s", ending(c.Close(websocket.StatusNormalClosure, "")))
						},
					})
				}
			}
		}
	}
	return all
}

// exchange sends a message and logs the answer.
func exchange(ctx context.Context, c *websocket.Conn, log *transcript, kind websocket.MessageType, n, fragments int) {
	c.SetReadLimit(-1)
	if err := writeFragments(ctx, c, kind, pattern(n), fragments); err != nil {
		log.add("write: %s", ending(err))
		return
	}
	got, p, err := c.Read(ctx)
	log.add("%v: %s, %s", got, sum(p), ending(err))
}

// writeFragments sends a message in so many frames of about the same length.
// The implementation ends one with an empty frame of its own.
func writeFragments(ctx context.Context, c *websocket.Conn, kind websocket.MessageType, p []byte, fragments int) error {
	if fragments <= 1 {
		return c.Write(ctx, kind, p)
	}
	w, err := c.Writer(ctx, kind)
	if err != nil {
		return err
	}
	for i := range fragments {
		if _, err := w.Write(p[len(p)*i/fragments : len(p)*(i+1)/fragments]); err != nil {
			return err
		}
	}
	return w.Close()
}

// frameCases mirror frames one by one: every length in every form, and control
// frames between fragments.
func frameCases() (all []wsCase) {
	words := []string{}
	for i := range lengths {
		words = append(words, fmt.Sprintf("t%d", i), fmt.Sprintf("b%d", i))
	}
	for _, control := range []string{"P0", "P1", "P2", "O0", "O2", "P1O1", "P0P1P2"} {
		for _, kind := range []string{"T", "B"} {
			words = append(words, kind+"1"+control+"C1", kind+"6"+control+"C6", kind+"3"+control+"c0"+control+"C2")
		}
	}
	for _, w := range words {
		all = append(all, mirrored("frames "+w, "/frames", script(w)...))
	}
	for _, wide := range []int{2, 8} {
		for _, n := range []int{0, 1, 125} {
			all = append(all, mirrored(fmt.Sprintf("%d bytes with a length of %d bytes", n, wide), "/frames", frame{opcode: opBinary, wide: wide, payload: pattern(n)}))
		}
	}
	return append(all, mirrored("a frame in the packet of the 101", "/early", script("t1")...))
}

// mirrored sends frames, then a close, and logs all that comes back.
func mirrored(name, target string, frames ...frame) wsCase {
	return wsCase{name: name, target: target, byFrames: func(c *rawConn, log *transcript) {
		if err := c.send(append(frames, closeFrame(1000, "done"))...); err != nil {
			log.add("the peer takes no more")
		}
		c.receive(log)
	}}
}

// pushCases have the upstream send control frames between fragments, and
// unsolicited pongs.
func pushCases() (all []wsCase) {
	for _, words := range []string{
		"T1P0C1", "T1P1C1", "T1P2C1", "B6P0C6", "B6P2c0P1C5", "T3P0P1P2C3", "O0t1", "O1t1", "O2b4",
		"T1O2C1", "P0t1", "P2b7", "P1P1P1P1t2", "t0t1t2t3t4t5t6", "b7",
	} {
		all = append(all, wsCase{name: "pushed " + words, target: "/push", client: func(ctx context.Context, c *websocket.Conn, log *transcript) {
			c.SetReadLimit(-1)
			log.add("write: %s", ending(c.Write(ctx, websocket.MessageText, []byte(words))))
			for range strings.Count(strings.ToLower(words), "t") + strings.Count(strings.ToLower(words), "b") {
				kind, p, err := c.Read(ctx)
				log.add("%v: %s, %s", kind, sum(p), ending(err))
			}
			_ = c.CloseNow()
		}})
	}
	return all
}

// pingCases ping the upstream and wait for its pongs.
func pingCases() (all []wsCase) {
	for _, n := range []int{1, 2, 10} {
		all = append(all, wsCase{name: fmt.Sprintf("%d pings", n), target: "/echo", client: func(ctx context.Context, c *websocket.Conn, log *transcript) {
			ctx = c.CloseRead(ctx)
			for range n {
				log.add("ping: %s", ending(c.Ping(ctx)))
			}
			log.add("close: %s", ending(c.Close(websocket.StatusNormalClosure, "")))
		}})
	}
	return all
}

// handshakeCases negotiate subprotocols and carry headers, cookies and queries.
func handshakeCases() (all []wsCase) {
	one := func(name, target string, o *websocket.DialOptions) {
		all = append(all, wsCase{name: name, target: target, dial: o, client: func(ctx context.Context, c *websocket.Conn, log *transcript) {
			log.add("subprotocol %q", c.Subprotocol())
			exchange(ctx, c, log, websocket.MessageText, 2000, 1)
			log.add("close: %s", ending(c.Close(websocket.StatusNormalClosure, "")))
		}})
	}
	for _, offered := range []string{"", "a", "a,b", "b,a", "c"} {
		for _, spoken := range []string{"", "a", "b,a"} {
			o := &websocket.DialOptions{}
			if offered != "" {
				o.Subprotocols = strings.Split(offered, ",")
			}
			one(fmt.Sprintf("subprotocols %q of %q", offered, spoken), "/echo?protocols="+spoken, o)
		}
	}
	for _, offered := range []string{"no", "takeover", "fresh"} {
		for _, spoken := range []string{"no", "takeover", "fresh"} {
			one(fmt.Sprintf("compression %s with %s", offered, spoken), "/echo?compress="+spoken, &websocket.DialOptions{CompressionMode: compression(offered)})
		}
	}
	one("headers", "/echo?a=%2F;b=&&c", &websocket.DialOptions{HTTPHeader: http.Header{
		"Origin": {"http://app.example"}, "Cookie": {"a=1; b=2"}, "Authorization": {"Bearer t"}, "X-Forwarded-For": {"10.0.0.1"}, "X-Twice": {"1", "2"},
	}})
	return all
}

// refusalCases are handshakes that the upstream answers with something else.
func refusalCases() (all []wsCase) {
	for _, status := range []int{200, 204, 307, 400, 401, 403, 404, 426, 429, 500, 503} {
		all = append(all, wsCase{name: fmt.Sprintf("refused with %d", status), target: fmt.Sprintf("/refuse?status=%d", status)})
	}
	return all
}
