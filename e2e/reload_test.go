package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

// reload puts a configuration into the file and has it applied.
func (s *sidecar) reload(t *testing.T, yaml string) {
	t.Helper()
	s.write(t, yaml)
	if r := s.do(context.Background(), http.MethodPost, "ADMIN", "/api/reload", nil); r.status != http.StatusOK {
		t.Fatalf("reload: %v", r)
	}
}

// reloadRefusal is the answer to a reload that was refused.
type reloadRefusal struct {
	Status int
	Error  string
	Faults []struct {
		File, Key, Message string
		Line               int
	}
}

// failReload puts a configuration into the file that must not be applied, and
// returns why it was not.
func (s *sidecar) failReload(t *testing.T, yaml string) reloadRefusal {
	t.Helper()
	s.write(t, yaml)
	r := s.do(context.Background(), http.MethodPost, "ADMIN", "/api/reload", nil)
	var p reloadRefusal
	if err := json.Unmarshal([]byte(r.body), &p); r.status != http.StatusUnprocessableEntity || err != nil || p.Status != r.status || p.Error == "" {
		t.Fatalf("a reload that should fail: %v", r)
	}
	s.wantMetric(t, 0, "sidecar_config_last_reload_successful")
	return p
}

// force gives a dependency's breaker an operator's order.
func (s *sidecar) force(t *testing.T, name, word string) {
	t.Helper()
	body := strings.NewReader(`{"force":"` + word + `"}`)
	if r := s.do(context.Background(), http.MethodPost, "ADMIN", "/api/dependencies/"+name+"/breaker", body); r.status != http.StatusOK {
		t.Fatalf("force %s: %v", word, r)
	}
}

// TestReload_LimitsChangeInPlace: a raised limit wakes waiters at once, a
// lowered one lets running calls end, a lowered threshold counts the failures
// of before.
func TestReload_LimitsChangeInPlace(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	u := newUpstream(t, func(x *exchange) {
		if x.until(release) {
			x.respond(http.StatusOK, "ok")
		}
	})
	config := func(limit, failures int) string {
		return fmt.Sprintf(`
dependencies:
  - name: a
    listen: $A
    upstream: http://$U
    breaker: {consecutive_failures: %d, min_calls: 100}
    bulkhead: {max_concurrent: %d, max_waiting: 5, queue_timeout: 5s}
`, failures, limit)
	}
	s := start(t, config(1, 9), u)
	var calls sync.WaitGroup
	results := make([]result, 4)
	for i := range results {
		calls.Go(func() { results[i] = s.get("A", "/held") })
	}
	defer calls.Wait()
	wantBulkhead := func(limit, inUse, waiting int) {
		t.Helper()
		b := s.api(t, "a").Bulkhead
		if !poll(2*time.Second, func() bool { b = s.api(t, "a").Bulkhead; return b.InUse == inUse && b.Waiting == waiting }) || b.Limit != limit {
			t.Fatalf("the bulkhead is %+v, want limit %d, in use %d, waiting %d", b, limit, inUse, waiting)
		}
	}
	wantBulkhead(1, 1, 3)
	s.reload(t, config(3, 9))
	applied := time.Now()
	u.await(t, 3)
	wantWithin(t, "waking the waiters", time.Since(applied), tolerance)
	wantBulkhead(3, 3, 1)
	s.reload(t, config(1, 9))
	wantBulkhead(1, 3, 1)
	close(release)
	calls.Wait()
	for _, r := range results {
		if r.status != http.StatusOK {
			t.Errorf("a call that ran or waited while the limit changed: %v", r)
		}
	}
	if n := u.requests(); n != 4 {
		t.Errorf("the upstream saw %d requests, want 4", n)
	}
	u.handle(fails(http.StatusInternalServerError))
	for i := range 4 {
		if i == 2 {
			s.reload(t, config(1, 4))
		}
		if st := s.api(t, "a").Breaker.State; st != "closed" {
			t.Fatalf("%s after %d failures", st, i)
		}
		s.get("A", "/fails")
	}
	if b := s.api(t, "a").Breaker; b.State != "open" || b.Reason != "4 failures in a row" {
		t.Errorf("after 2 failures, a reload and 2 more the breaker is %+v, want open", b)
	}
}

// TestReload_WhatDidNotChangeIsNotTouched: open circuits keep their expiry,
// copies, streams, connections and counters live on, beside a dependency that
// changed and in it.
func TestReload_WhatDidNotChangeIsNotTouched(t *testing.T) {
	t.Parallel()
	sick := newUpstream(t, fails(http.StatusInternalServerError))
	more := make(chan string)
	calm := newUpstream(t, func(x *exchange) {
		if x.req.URL.Path != "/stream" {
			x.respond(http.StatusOK, "ok")
			return
		}
		x.head(http.StatusOK, "Content-Type: text/event-stream", "Transfer-Encoding: chunked")
		for text := range more {
			x.chunk(text)
		}
		x.chunk("")
	})
	config := func(sickPolicy, copyPolicy string) string {
		return base + `
dependencies:
  - {name: sick, listen: $SICK, upstream: "http://$U1", breaker: {` + sickPolicy + `}}
  - {name: calm, listen: $CALM, upstream: "http://$U2"}
  - {name: copy, listen: $COPY, upstream: "http://$U2", ` + copyPolicy + `}
`
	}
	s := start(t, config("cooldown: 60s", "fallback: [{stale: {max_age: 10m}}]"), sick, calm)
	for range 3 {
		s.get("SICK", "/")
	}
	kept, stream := s.dial(t, "CALM"), s.dial(t, "CALM")
	kept.get(t, "/kept")
	if r := kept.response("GET"); r.status != http.StatusOK {
		t.Fatal(r)
	}
	stream.get(t, "/stream")
	more <- "one\n"
	res, err := http.ReadResponse(stream.in, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r := s.get("COPY", "/page"); r.status != http.StatusOK {
		t.Fatal(r)
	}
	s.wantMetric(t, 1, "sidecar_cache_stores_total")
	before, sickBefore, calmBefore := s.metrics(t), s.api(t, "sick"), s.api(t, "calm")
	connections, _ := calm.connections()

	s.reload(t, config("cooldown: 100ms, consecutive_failures: 7, window: 50", "timeout: 3s, fallback: [{stale: {max_age: 5m}}]"))

	sickAfter, calmAfter := s.api(t, "sick"), s.api(t, "calm")
	if sickAfter.Breaker.State != "open" || !sickAfter.Breaker.OpenUntil.Equal(*sickBefore.Breaker.OpenUntil) || !sickAfter.Breaker.Since.Equal(sickBefore.Breaker.Since) {
		t.Errorf("the open circuit became %+v, was %+v", sickAfter.Breaker, sickBefore.Breaker)
	}
	if !reflect.DeepEqual(calmAfter, calmBefore) {
		t.Errorf("the unchanged dependency became %+v, was %+v", calmAfter, calmBefore)
	}
	after := s.metrics(t)
	for _, m := range before {
		if !strings.HasSuffix(m.name, "_total") && !strings.HasSuffix(m.name, "_count") {
			continue
		}
		var labels []string
		for name, value := range m.labels {
			labels = append(labels, name, value)
		}
		if now := after.sum(t, m.name, labels...); now < m.value {
			t.Errorf("%s%v fell from %v to %v", m.name, m.labels, m.value, now)
		}
	}
	more <- "two\n"
	close(more)
	if text, err := io.ReadAll(res.Body); string(text) != "one\ntwo\n" || err != nil {
		t.Errorf("the stream became %q, %v", text, err)
	}
	kept.get(t, "/kept")
	if r := kept.response("GET"); r.status != http.StatusOK {
		t.Errorf("on the kept connection: %v", r)
	}
	if n, _ := calm.connections(); n != connections {
		t.Errorf("the upstream has had %d connections, %d before the reload", n, connections)
	}
	s.force(t, "copy", "open")
	wantCopy(t, s.get("COPY", "/page"), "ok", "open")
}

// TestReload_RemovedDependencyDrains: its port refuses, its calls end, its
// streams are closed at drain_timeout, its series go; added again it works.
func TestReload_RemovedDependencyDrains(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	u := newUpstream(t, func(x *exchange) {
		switch x.req.URL.Path {
		case "/held":
			x.until(release)
		case "/events":
			x.head(http.StatusOK, "Content-Type: text/event-stream", "Transfer-Encoding: chunked")
			x.hang()
			return
		}
		x.respond(http.StatusOK, "ok")
	})
	const without = base + `
shutdown: {drain_timeout: 1s}
dependencies:
  - {name: a, listen: $A, upstream: "http://$U"}
`
	const with = without + `
  - {name: b, listen: $B, upstream: "http://$U", attempt_timeout: 2s}
`
	s := start(t, with, u)
	var calls sync.WaitGroup
	var held, events result
	var cut time.Time
	calls.Go(func() {
		events = s.get("B", "/events")
		cut = time.Now()
	})
	calls.Go(func() { held = s.get("B", "/held") })
	defer calls.Wait()
	u.await(t, 2)
	s.reload(t, without)
	removed := time.Now()
	if !poll(time.Second, func() bool { return refusesConnections(s.addresses["B"]) }) {
		t.Errorf("the removed dependency's port still accepts")
	}
	if r := s.admin(http.MethodGet, "/api/dependencies/b"); r.status != http.StatusNotFound {
		t.Errorf("the removed dependency in the API: %v", r)
	}
	close(release)
	calls.Wait()
	if held.status != http.StatusOK {
		t.Errorf("the removed dependency's call in flight: %v", held)
	}
	wantTook(t, "the life of its stream after the removal", cut.Sub(removed), time.Second)
	if events.status != http.StatusOK || events.err == nil {
		t.Errorf("its stream that was cut: %v, want an error", events)
	}
	if !poll(time.Second, func() bool { return countSeries(s.metrics(t), "b") == 0 }) {
		t.Errorf("the removed dependency still has %d series", countSeries(s.metrics(t), "b"))
	}
	s.reload(t, with)
	if r := s.get("B", "/again"); r.status != http.StatusOK {
		t.Errorf("added again: %v", r)
	}
	s.wantMetric(t, 1, "sidecar_requests_total", "dependency", "b", "outcome", "ok")
	if r := s.get("A", "/x"); r.status != http.StatusOK {
		t.Errorf("the dependency beside it: %v", r)
	}
}

// refusesConnections reports whether nobody listens on an address.
func refusesConnections(address string) bool {
	c, err := net.Dial("tcp", address)
	if err == nil {
		_ = c.Close()
	}
	return err != nil
}

// countSeries counts the series of a dependency.
func countSeries(all scrape, dependency string) int {
	n := 0
	for _, m := range all {
		if m.labels["dependency"] == dependency {
			n++
		}
	}
	return n
}
