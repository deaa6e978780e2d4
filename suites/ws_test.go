package suites

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

// TestWebSocket plays every case against the upstream directly and through the
// sidecar; both sides must see the same. The sidecar has the race detector.
func TestWebSocket(t *testing.T) {
	t.Parallel()
	u := &upstream{cases: map[string]*record{}}
	port := serve(t, u)
	address := fmt.Sprintf("127.0.0.1:%d", port)
	s := startSidecar(t, sidecarRaceBinary(t), dependency{name: "websocket", upstream: "http://" + address, more: "preserve_host: true"})
	through := strings.TrimPrefix(s.url("websocket"), "http://")

	cases := wsCases()
	names := []string{}
	byName := map[string]wsCase{}
	for _, c := range cases {
		names = append(names, c.name)
		byName[c.name] = c
	}
	if len(byName) != len(cases) || len(cases) < 200 {
		t.Fatalf("%d cases with %d names; want at least 200, each with its own", len(cases), len(byName))
	}
	var passed tally
	each(names, 4, func(name string) {
		want := u.play(t, address, "direct: ", byName[name])
		got := u.play(t, through, throughSidecar, byName[name])
		passed.add(got == want)
		if got != want {
			t.Errorf("%s\ndirectly:\n%s\nthrough the sidecar:\n%s", name, want, got)
		}
	})
	t.Logf("%v", &passed)
	s.atRest("websocket")
	if n := s.state("websocket").calls(); n != len(cases) {
		t.Errorf("the sidecar counted %d calls, want %d", n, len(cases))
	}
	if n, want := s.metric("sidecar_attempts_total"), u.throughSidecar.Load(); int64(n) != want {
		t.Errorf("the sidecar counted %v attempts, the upstream saw %d", n, want)
	}
	if retries := s.metric("sidecar_retries_total"); retries == 0 {
		t.Error("no retry was made: the 503 should have been asked for again")
	}
	s.stop()
	if n := s.logLines("websocket"); n != len(cases) {
		t.Errorf("the access log has %d lines, want %d", n, len(cases))
	}
}

// play plays a case and returns what client and upstream saw.
func (u *upstream) play(t *testing.T, address, way string, c wsCase) string {
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	id := way + c.name
	server, client := u.expect(id), new(transcript)
	if c.byFrames != nil {
		conn, err := rawDial(ctx, address, c.target, id)
		if err != nil {
			return err.Error()
		}
		c.byFrames(conn, client)
		_ = conn.Close()
	} else {
		c.play(ctx, address, id, client)
	}
	select {
	case <-server.ended:
	case <-ctx.Done():
		client.add("the upstream did not end")
	}
	return fmt.Sprintf("client:\n%v\nupstream:\n%v", client, &server.transcript)
}

// shakeHands is the HTTP client of the WebSocket clients.
var shakeHands = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// play makes the handshake, and plays the client's part if there is one.
func (c wsCase) play(ctx context.Context, address, id string, log *transcript) {
	o := websocket.DialOptions{}
	if c.dial != nil {
		o = *c.dial
	}
	o.HTTPClient = shakeHands
	o.HTTPHeader = o.HTTPHeader.Clone()
	if o.HTTPHeader == nil {
		o.HTTPHeader = http.Header{}
	}
	o.HTTPHeader.Set(caseHeader, id)
	conn, res, err := websocket.Dial(ctx, "ws://"+address+c.target, &o)
	if res == nil {
		log.add("dial: %v", err)
		return
	}
	log.add("%s\n%s", res.Status, headerLines(res.Header))
	if err != nil {
		body, _ := io.ReadAll(res.Body)
		log.add("%s", bytes.TrimSpace(body))
		return
	}
	defer conn.CloseNow()
	if c.client != nil {
		c.client(ctx, conn, log)
	}
}
