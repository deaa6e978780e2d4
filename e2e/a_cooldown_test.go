package e2e

import (
	"net/http"
	"strconv"
	"testing"
	"time"
)

// What happened: failures of calls that were under way when the circuit opened
// set it open again, each with a new cooldown.
// Right: one transition, and the cooldown counts from it.
func TestA7_LateFailuresRestartTheCooldown(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(x *exchange) {
		if x.delay(300*time.Millisecond + time.Duration(x.n)*100*time.Millisecond) {
			x.respond(500, "no")
		}
	})
	s := start(t, one+"    attempt_timeout: 2s\n", u)
	done := make(chan []result, 1)
	go func() { done <- together(10, func(int) result { return s.get("A", "/fails") }) }()
	s.awaitState(t, "a", "open", 2*time.Second)
	b := s.api(t, "a").Breaker
	if len(withStatus(<-done, 500)) != 10 {
		t.Errorf("not all of the calls under way got their answer")
	}
	late := s.api(t, "a").Breaker
	if late.State != "open" || !late.Since.Equal(b.Since) || !late.OpenUntil.Equal(*b.OpenUntil) || b.OpenUntil.Sub(b.Since) != time.Second {
		t.Errorf("open from %v to %v at first, from %v to %v after late failures", b.Since, b.OpenUntil, late.Since, late.OpenUntil)
	}
	u.handle(ok)
	time.Sleep(time.Until(b.Since.Add(1150 * time.Millisecond)))
	if r := s.get("A", "/probe"); r.status != http.StatusOK || u.requests() != 11 {
		t.Errorf("1.15 s after the circuit opened: %v, %d requests", r, u.requests())
	}
	s.wantTransitions(t, "a", 1, 1, 1)
}

// What happened: the end of the cooldown needed traffic to be seen, or
// refused traffic put it off, or it did not grow as configured.
// Right: it follows from the clock alone, Retry-After tells what is left of
// it, and with backoff each failed probe makes it longer.
func TestA8_CooldownFollowsTheClock(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, ok)
	v := newUpstream(t, ok)
	s := start(t, base+`
dependencies:
  - {name: asked, listen: $ASKED, upstream: http://$U, breaker: {cooldown: 2s}}
  - {name: quiet, listen: $QUIET, upstream: http://$U2, breaker: {cooldown: 500ms, backoff: {factor: 2, max: 10s}}}
`, u, v)
	t.Run("asked all the time", func(t *testing.T) {
		opened := s.trip(t, u, "ASKED", "asked")
		u.handle(ok)
		var refused []result
		for {
			r := s.get("ASKED", "/")
			if r.status == http.StatusOK {
				wantTook(t, "the cooldown", r.sent.Sub(opened), 2*time.Second)
				break
			}
			left := opened.Add(2 * time.Second).Sub(r.sent)
			after, err := strconv.Atoi(r.header.Get("Retry-After"))
			if err != nil || after < 1 || time.Duration(after)*time.Second < left-tolerance || time.Duration(after-1)*time.Second > left+tolerance {
				t.Fatalf("with %s left, Retry-After says %q", left, r.header.Get("Retry-After"))
			}
			if refused = append(refused, r); left < -2*time.Second {
				t.Fatalf("still refused %s after the cooldown: %v", -left, r)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if n := u.requests(); n != 4 {
			t.Errorf("%d requests reached the upstream, want 3 and the probe", n)
		}
		wantRefusedFast(t, refused)
	})
	t.Run("asked by nobody", func(t *testing.T) {
		opened := s.trip(t, v, "QUIET", "quiet")
		over := opened.Add(500 * time.Millisecond)
		if !poll(2*time.Second, func() bool {
			asked := time.Now()
			seen := s.metrics(t).sum(t, "sidecar_breaker_state", "dependency", "quiet")
			if seen == 2 && asked.After(over.Add(tolerance)) || seen == 1 && time.Now().Before(over.Add(-tolerance)) {
				t.Errorf("sidecar_breaker_state is %v %s after the circuit opened", seen, time.Since(opened))
			}
			return seen == 1
		}) {
			t.Fatalf("without traffic the circuit never becomes half-open")
		}
		if r := s.get("QUIET", "/"); r.status != 500 {
			t.Errorf("the failing probe: %v", r)
		}
		b := s.api(t, "quiet").Breaker
		if b.State != "open" || b.OpenUntil.Sub(b.Since) != time.Second {
			t.Errorf("after a failed probe: %+v, want open for 1 s", b)
		}
	})
}
