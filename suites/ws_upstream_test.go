package suites

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

// caseHeader names the case that a handshake belongs to, and the way it came.
const caseHeader = "X-Case"

// throughSidecar begins the names of the cases that come that way.
const throughSidecar = "through the sidecar: "

// upstream is a WebSocket server whose behaviour is chosen by the request: the
// path says what it does, the query how.
type upstream struct {
	throughSidecar atomic.Int64 // requests

	mu    sync.Mutex // guards cases
	cases map[string]*record
}

// record is the upstream's side of one case.
type record struct {
	transcript
	once  sync.Once
	ended chan struct{} // closed once the upstream is done
}

// expect opens the record of a case that is about to begin.
func (u *upstream) expect(id string) *record {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.cases[id] = &record{ended: make(chan struct{})}
	return u.cases[id]
}

// ServeHTTP plays the upstream's side of a case.
func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get(caseHeader)
	if strings.HasPrefix(id, throughSidecar) {
		u.throughSidecar.Add(1)
	}
	u.mu.Lock()
	log := u.cases[id]
	u.mu.Unlock()
	defer log.once.Do(func() { close(log.ended) })
	q := r.URL.Query()
	if r.URL.Path == "/refuse" {
		refuse(w, q) // may be asked again, by a retry: nothing is recorded
		return
	}
	log.add("%s %s\n%s", r.Method, r.RequestURI, headerLines(r.Header))
	if script, ok := rawScripts[r.URL.Path]; ok {
		c, err := rawAccept(w, r, r.URL.Path == "/early")
		if err != nil {
			log.add("hijack: %v", err)
			return
		}
		defer c.Close()
		script(c, &log.transcript)
		return
	}
	o := &websocket.AcceptOptions{CompressionMode: compression(q.Get("compress")), InsecureSkipVerify: true}
	if q.Get("protocols") != "" {
		o.Subprotocols = strings.Split(q.Get("protocols"), ",")
	}
	c, err := websocket.Accept(w, r, o)
	if err != nil {
		log.add("accept: %v", err)
		return
	}
	defer c.CloseNow()
	c.SetReadLimit(-1)
	log.add("subprotocol %q", c.Subprotocol())
	switch r.URL.Path {
	case "/echo":
		echo(r, c, q, &log.transcript)
	case "/close":
		closeAfterOne(r, c, q, &log.transcript)
	}
}

// headerLines lists what must arrive unchanged: all but what is random.
func headerLines(h http.Header) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(h)) {
		switch name {
		case caseHeader, "Date", "Sec-Websocket-Key", "Sec-Websocket-Accept":
		default:
			fmt.Fprintf(&b, "%s: %q\n", name, h[name])
		}
	}
	return b.String()
}

func compression(name string) websocket.CompressionMode {
	return map[string]websocket.CompressionMode{
		"takeover": websocket.CompressionContextTakeover, "fresh": websocket.CompressionNoContextTakeover,
	}[name]
}

// echo sends each message back, in as many fragments as asked for.
func echo(r *http.Request, c *websocket.Conn, q url.Values, log *transcript) {
	fragments, _ := strconv.Atoi(q.Get("fragments"))
	for {
		kind, p, err := c.Read(r.Context())
		if err != nil {
			log.add("read: %s", ending(err))
			return
		}
		log.add("%v: %s", kind, sum(p))
		if err := writeFragments(r.Context(), c, kind, p, fragments); err != nil {
			log.add("write: %s", ending(err))
			return
		}
	}
}

// closeAfterOne answers the first message with a close.
func closeAfterOne(r *http.Request, c *websocket.Conn, q url.Values, log *transcript) {
	_, p, err := c.Read(r.Context())
	log.add("%s, %s", sum(p), ending(err))
	code, _ := strconv.Atoi(q.Get("code"))
	log.add("close: %s", ending(c.Close(websocket.StatusCode(code), q.Get("reason"))))
}

// ending tells how a connection ended, as far as it must be the same on every
// way: an end without a close frame is one, however the system calls it.
func ending(err error) string {
	var closed websocket.CloseError
	switch {
	case err == nil:
		return "no error"
	case errors.As(err, &closed):
		return fmt.Sprintf("closed with %d %q", closed.Code, closed.Reason)
	case errors.Is(err, net.ErrClosed), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "dropped"
	default:
		var system *net.OpError
		if errors.As(err, &system) && !system.Timeout() {
			return "dropped"
		}
		return err.Error()
	}
}

// refuse answers a handshake with something else than 101.
func refuse(w http.ResponseWriter, q url.Values) {
	status, _ := strconv.Atoi(q.Get("status"))
	w.Header().Set("X-Why", "not today")
	w.Header().Set("Content-Type", "text/plain")
	switch status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Basic realm="upstream"`)
	case http.StatusTemporaryRedirect:
		w.Header().Set("Location", "/elsewhere")
	case http.StatusUpgradeRequired:
		w.Header().Set("Sec-WebSocket-Version", "13, 8")
	}
	w.WriteHeader(status)
	fmt.Fprintf(w, "refused with %d", status)
}

// rawAccept answers a handshake by hand. With early, the first frame is in the
// same packet as the answer.
func rawAccept(w http.ResponseWriter, r *http.Request, early bool) (*rawConn, error) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(testTimeout))
	answer := "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: " +
		acceptKey(r.Header.Get("Sec-WebSocket-Key")) + "\r\n\r\n"
	if early {
		answer += string(frame{opcode: opText, payload: []byte("early")}.bytes())
	}
	_, err = io.WriteString(conn, answer)
	return &rawConn{TCPConn: conn.(*net.TCPConn), r: buffered}, err
}
