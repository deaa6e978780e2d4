package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// ailment is one way in which a dependency does not answer.
type ailment struct {
	name   string // of the dependency that has it
	reason string // that a call is told
	status int    // of a call that nothing stands in for
	keys   string // of the dependency
	line   string // of the header of every call, or empty
	asked  bool   // each call reaches the upstream
	begin  func(t *testing.T, p patient)
}

// own makes the upstream itself the cause.
func own(handler func(*exchange)) func(*testing.T, patient) {
	return func(_ *testing.T, p patient) { p.u.handle(handler) }
}

// late makes the upstream take longer than its dependency waits, which is not
// long from now on: a well one had all the time that a busy machine needs.
func late(handler func(*exchange)) func(*testing.T, patient) {
	return func(t *testing.T, p patient) {
		p.reload(t, p.yaml("100ms"))
		t.Cleanup(func() { p.reload(t, p.yaml("20s")) })
		p.u.handle(handler)
	}
}

// tripped opens the circuit by failures, of a target that no test asks for.
func tripped(_ *testing.T, p patient) {
	p.u.handle(fails(http.StatusInternalServerError))
	for range 3 {
		p.get(p.port, "/trip")
	}
}

// held has the only permit taken.
func held(t *testing.T, p patient) { p.hold(t, p.u, p.port) }

// ailments are all of them. Each lasts until its test's end.
var ailments = []ailment{
	{"status", "status", 500, "", "", true, own(fails(http.StatusInternalServerError))},
	{"connect", "connect", 502, "", "", false, func(t *testing.T, p patient) {
		p.u.refuse()
		if !poll(patience, func() bool {
			return p.do(context.Background(), http.MethodPost, p.port, "/none", nil).reason() == "connect"
		}) {
			t.Fatal("connections are not refused")
		}
	}},
	{"reset", "reset", 502, "", "", true, own((*exchange).reset)},
	{"cut", "reset", 502, "", "", true, own(func(x *exchange) {
		x.write("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nX-Cu")
		x.close()
	})},
	{"protocol", "protocol", 502, "", "", true, own(func(x *exchange) {
		x.write("220 mail.test ESMTP\r\n\r\n")
		x.close()
	})},
	{"attempt", "timeout", 504, "attempt_timeout: SHORT", "", true, late(hang)},
	{"call", "timeout", 504, "timeout: SHORT, attempt_timeout: SHORT", "", true, late(func(x *exchange) {
		x.write("HTTP/1.1 200 OK\r\n") // and nothing more
		x.hang()
	})},
	{"deadline", "deadline", 504, "", "X-Request-Timeout-Ms: 100", true, own(hang)},
	{"open", "open", 503, "breaker: {mode: enforce, cooldown: 1m}", "", false, tripped},
	{"probing", "probing", 503, "breaker: {mode: enforce, cooldown: 200ms}", "", false, func(t *testing.T, p patient) {
		tripped(t, p)
		p.awaitState(t, p.name, "half_open", 2*time.Second)
		p.hold(t, p.u, p.port)
	}},
	{"full", "queue_full", 503, "bulkhead: {max_concurrent: 1, max_waiting: 0}", "", false, held},
	{"waits", "queue_timeout", 503, "bulkhead: {max_concurrent: 1, queue_timeout: 50ms}", "", false, held},
}

// ward is a sidecar with one dependency for each ailment, all of them well.
type ward struct {
	*sidecar
	upstreams []*upstream
	text      string // of the configuration
}

// yaml returns the configuration with the time that a dependency waits which
// waits too short.
func (w *ward) yaml(short string) string { return strings.ReplaceAll(w.text, "SHORT", short) }

// copies is the key of a dependency whose fallback is a stale copy.
const copies = "fallback: [{stale: {max_age: 10m}}]"

// patients starts a ward. Keys are those of every dependency, sections stand
// beside them.
func patients(t *testing.T, keys, sections string, handler func(*exchange)) *ward {
	t.Helper()
	var yaml strings.Builder
	fmt.Fprintf(&yaml, `
defaults:
  breaker: {mode: "off", consecutive_failures: 3, min_calls: 1000000, jitter: 0, ramp: 0s, probes: 1}
  timeout: 20s
%s
dependencies:
`, sections)
	w := &ward{}
	for i, a := range ailments {
		fmt.Fprintf(&yaml, "  - {name: %s, listen: $P%d, upstream: \"http://$U%d\", %s, %s}\n", a.name, i+1, i+1, keys, a.keys)
		w.upstreams = append(w.upstreams, newUpstream(t, handler))
	}
	w.text = yaml.String()
	w.sidecar = start(t, w.yaml("20s"), w.upstreams...)
	return w
}

// patient is one dependency of a ward.
type patient struct {
	ailment
	*ward
	port string
	u    *upstream
}

// each runs a test for every dependency of the ward, while it is well.
func (w *ward) each(t *testing.T, test func(t *testing.T, p patient)) {
	t.Helper()
	for i, a := range ailments {
		t.Run(a.name, func(t *testing.T) { test(t, patient{a, w, fmt.Sprintf("P%d", i+1), w.upstreams[i]}) })
	}
}

// stored waits until a number of copies have been kept for each dependency.
func (w *ward) stored(t *testing.T, n int) {
	t.Helper()
	w.wantMetric(t, float64(n*len(ailments)), "sidecar_cache_stores_total")
}

// sicken brings the ailment on, for as long as the test runs.
func (p patient) sicken(t *testing.T) {
	t.Helper()
	p.begin(t, p)
}

// call makes a call that the ailment befalls.
func (p patient) call(method, path string, lines ...string) result {
	if p.line != "" {
		lines = append(lines, p.line)
	}
	return p.do(context.Background(), method, p.port, path, nil, lines...)
}

// wantNothing fails the test unless a call that nothing may stand in for was
// told so.
func (p patient) wantNothing(t *testing.T, what string, r result) {
	t.Helper()
	wrong := r.status != p.status || r.header.Get("Sidecar-Degraded") != "" || r.header.Get("Age") != ""
	if p.reason != "status" {
		wrong = wrong || r.reason() != p.reason
	}
	if wrong {
		t.Errorf("%s got %v %v, want %d", what, r, r.header, p.status)
	}
}

// leaving answers and closes the connection, so that no later call meets it while
// it dies.
func (x *exchange) leaving(status int, body string, lines ...string) {
	x.respond(status, body, append(lines, "Connection: close")...)
	x.close()
}

// parting is a handler that answers so.
func parting(status int, body string) func(*exchange) {
	return func(x *exchange) { x.leaving(status, body) }
}
