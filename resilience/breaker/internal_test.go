package breaker

import (
	"math"
	"testing"
	"time"
)

var origin = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// An outcome at the start of a step counts for exactly the span; one at its end
// a step less, less a nanosecond.
func TestTimeWindowForgetsExactly(t *testing.T) {
	const span = time.Minute
	for _, c := range []struct{ at, until time.Duration }{
		{0, span},
		{time.Second - 1, span},
		{time.Second, span + time.Second},
		{59 * time.Second, span + 59*time.Second},
		{61*time.Second + 1, span + 61*time.Second},
	} {
		w := newWindow(origin, Window{Span: span})
		w.record(origin.Add(c.at), Failure|Slow)
		if got := w.tally(origin.Add(c.until - 1)); got != (tally{1, 1, 1}) {
			t.Errorf("outcome at %v: %+v just before %v, want it to count", c.at, got, c.until)
		}
		if got := w.tally(origin.Add(c.until)); got != (tally{}) {
			t.Errorf("outcome at %v: %+v at %v, want it forgotten", c.at, got, c.until)
		}
	}
}

// The clock goes on for many windows without a call, then steps are reused.
func TestTimeWindowAfterSilence(t *testing.T) {
	w := newWindow(origin, Window{Span: time.Second})
	now := origin
	for _, silence := range []time.Duration{time.Second, 61 * time.Second, time.Hour, 150 * 365 * 24 * time.Hour} {
		w.record(now, Failure)
		w.record(now, Success)
		now = now.Add(silence)
		if got := w.tally(now); got != (tally{}) {
			t.Errorf("after %v of silence: %+v, want nothing", silence, got)
		}
	}
	w.record(now, Success)
	if got := w.tally(now); got != (tally{calls: 1}) {
		t.Errorf("%+v, want one call", got)
	}
}

// Steps are used again and again while the clock goes on in small steps: at each
// moment exactly the outcomes of the last sixty steps count.
func TestTimeWindowReusesItsSteps(t *testing.T) {
	w := newWindow(origin, Window{Span: time.Minute})
	for i := range 300 {
		now, want := origin.Add(time.Duration(i)*time.Second), tally{}
		for j := max(i-59, 0); j <= i; j++ {
			if j%7 == 0 {
				want.add(Failure, 1)
			}
		}
		if i%7 == 0 {
			w.record(now, Failure)
		}
		if got := w.tally(now); got != want {
			t.Fatalf("after %d s: %+v, want %+v", i, got, want)
		}
	}
}

// A span too short to be cut into sixty parts still works.
func TestTimeWindowOfNanoseconds(t *testing.T) {
	w := newWindow(origin, Window{Span: 30})
	w.record(origin, Failure)
	if got := w.tally(origin.Add(100)); got != (tally{}) {
		t.Errorf("%+v, want nothing", got)
	}
}

func TestCountWindowKeepsTheLatest(t *testing.T) {
	w := newWindow(origin, Window{Calls: 3})
	for _, o := range []Outcome{Failure, Failure | Slow, Slow, Success} {
		w.record(origin, o)
	}
	if got := w.tally(origin); got != (tally{calls: 3, failures: 1, slow: 2}) {
		t.Errorf("%+v, want the last three outcomes", got)
	}
	w.clear()
	w.record(origin, Success)
	if got := w.tally(origin); got != (tally{calls: 1}) {
		t.Errorf("%+v after clear, want one call", got)
	}
}

func TestCooldown(t *testing.T) {
	second := time.Second
	for _, c := range []struct {
		name   string
		policy Policy
		failed int
		r      float64
		want   time.Duration
	}{
		{"exact without jitter", Policy{Cooldown: second}, 0, 0.999, second},
		{"constant without backoff", Policy{Cooldown: second}, 9, 0, second},
		{"constant at factor 1", Policy{Cooldown: second, Backoff: Backoff{1, 1}}, 9, 0, second},
		{"first", Policy{Cooldown: second, Backoff: Backoff{2, time.Minute}}, 0, 0, second},
		{"third", Policy{Cooldown: second, Backoff: Backoff{2, time.Minute}}, 3, 0, 8 * second},
		{"fraction", Policy{Cooldown: second, Backoff: Backoff{1.5, time.Minute}}, 2, 0, 2250 * time.Millisecond},
		{"capped", Policy{Cooldown: second, Backoff: Backoff{2, 5 * second}}, 3, 0, 5 * second},
		{"overflow is capped", Policy{Cooldown: second, Backoff: Backoff{2, time.Minute}}, math.MaxInt, 0, time.Minute},
		{"overflow without a cap", Policy{Cooldown: second, Backoff: Backoff{2, 0}}, math.MaxInt, 0, longestCooldown},
		{"none", Policy{Backoff: Backoff{2, time.Minute}}, math.MaxInt, 0, 0},
		{"shortest", Policy{Cooldown: 10 * second, Jitter: 0.1}, 0, 0, 9 * second},
		{"middle", Policy{Cooldown: 10 * second, Jitter: 0.1}, 0, 0.5, 10 * second},
		{"three quarters", Policy{Cooldown: 10 * second, Jitter: 0.1}, 0, 0.75, 10500 * time.Millisecond},
		{"spread after the cap", Policy{Cooldown: second, Jitter: 0.5, Backoff: Backoff{2, 4 * second}}, 9, 0, 2 * second},
	} {
		if got := cooldown(&c.policy, c.failed, c.r); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if got := cooldown(&Policy{Cooldown: math.MaxInt64, Jitter: 1}, 0, math.Nextafter(1, 0)); got <= longestCooldown {
		t.Errorf("longest cooldown with jitter = %v: overflow", got)
	}
}

// Real spreads stay within their bounds, and replicas differ.
func TestJitterBounds(t *testing.T) {
	p := Policy{ConsecutiveFailures: 1, Cooldown: 10 * time.Second, Jitter: 0.2}
	seen := map[time.Duration]bool{}
	for range 200 {
		b := New(origin, p, nil)
		permit, err := b.Allow(origin)
		if err != nil {
			t.Fatal(err)
		}
		permit.Done(origin, Failure)
		d := b.RetryAfter(origin)
		if d < 8*time.Second || d > 12*time.Second {
			t.Fatalf("cooldown of %v, want 8 s to 12 s", d)
		}
		seen[d] = true
	}
	if len(seen) < 100 {
		t.Errorf("%d different cooldowns among 200", len(seen))
	}
}

func TestSoundPolicy(t *testing.T) {
	got := Policy{Probes: -1, Cooldown: -1, Jitter: 7, Window: Window{Calls: -1, Span: -1}}.sound()
	if got != (Policy{Probes: 1, Jitter: 1}) {
		t.Errorf("%+v", got)
	}
	p := Policy{Window: Window{Calls: 5}, Probes: 3, Cooldown: 4, Jitter: 0.5}
	if p.sound() != p {
		t.Error("changed a sound policy")
	}
}
