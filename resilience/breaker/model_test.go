package breaker_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sidecar/resilience/breaker"
)

func (r *reference) setPolicy(now time.Time, p breaker.Policy) {
	r.tick(now)
	old := r.p
	r.p = p
	if p.Window != old.Window {
		r.first, r.cut = len(r.list), r.now
	}
	if p.Mode == breaker.Off && old.Mode != breaker.Off {
		r.toClosed("switched off")
	} else if r.spell.state == halfOpen {
		r.judgeProbes()
	}
}

func (r *reference) force(now time.Time, f breaker.Forced) {
	r.tick(now)
	if f != breaker.Auto && f == r.forced {
		return
	}
	r.forced, r.grown = f, 0
	switch f {
	case breaker.Auto:
		r.toClosed("back to automatic")
	case breaker.ForcedClosed:
		r.toClosed("forced closed")
	case breaker.ForcedOpen:
		r.begin(open, r.now, "forced open")
	}
}

func (r *reference) reset(now time.Time) {
	r.tick(now)
	r.toClosed("upstream changed")
}

// retryAfter is asked with a time that may lie before the latest one seen.
func (r *reference) retryAfter(now time.Time) time.Duration {
	if r.spell.state != open || r.forced != breaker.Auto || now.After(r.spell.until) {
		return 0
	}
	return r.spell.until.Sub(now)
}

// Random settings, small enough that all rules meet often.
var policies = rapid.Custom(func(t *rapid.T) breaker.Policy {
	ratios := []float64{0, 0.25, 0.5, 0.8, 1}
	return breaker.Policy{
		Mode: rapid.SampledFrom([]breaker.Mode{breaker.Enforce, breaker.Enforce, breaker.Observe, breaker.Off}).Draw(t, "mode"),
		Window: rapid.SampledFrom([]breaker.Window{
			{}, {Calls: 1}, {Calls: 4}, {Calls: 10}, {Span: time.Second}, {Span: 7 * time.Second},
		}).Draw(t, "window"),
		MinCalls:            rapid.SampledFrom([]int{0, 1, 3, 5, 100}).Draw(t, "minCalls"),
		FailureRatio:        rapid.SampledFrom(ratios).Draw(t, "failureRatio"),
		ConsecutiveFailures: rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(t, "consecutiveFailures"),
		SlowCall: rapid.SampledFrom([]breaker.SlowCall{
			{}, {After: time.Second, Ratio: 0.5}, {After: time.Second, Ratio: 1},
		}).Draw(t, "slowCall"),
		Cooldown: rapid.SampledFrom([]time.Duration{0, 500 * time.Millisecond, 2 * time.Second}).Draw(t, "cooldown"),
		Backoff:  rapid.SampledFrom([]breaker.Backoff{{}, {Factor: 2, Max: 5 * time.Second}}).Draw(t, "backoff"),
		Probes:   rapid.IntRange(1, 4).Draw(t, "probes"),
	}
})

var (
	outcomes = rapid.SampledFrom([]breaker.Outcome{
		ignored, success, success, failure, failure, breaker.Slow, success | breaker.Slow, failure | breaker.Slow,
	})
	pauses = rapid.SampledFrom([]time.Duration{
		0, time.Nanosecond, 20 * time.Millisecond, 117 * time.Millisecond, 500 * time.Millisecond, time.Second, 10 * time.Second,
	})
	orders = rapid.SampledFrom([]breaker.Forced{breaker.Auto, breaker.Auto, breaker.ForcedOpen, breaker.ForcedClosed})
)

// pair is a permit and its mirror.
type pair struct {
	real breaker.Permit
	ref  *refPermit
}

// TestAgainstReference does random things to a breaker and to the reference and
// compares all they answer and tell.
func TestAgainstReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := start
		p := policies.Draw(t, "policy")
		var told []breaker.Transition
		b := breaker.New(now, p, func(tr breaker.Transition) { told = append(told, tr) })
		r := newReference(now, p)
		var permits []*pair

		allow := func(t *rapid.T) {
			got, err := b.Allow(now)
			want, wantErr := r.allow(now)
			if !errors.Is(err, wantErr) {
				t.Fatalf("Allow: %v, want %v", err, wantErr)
			}
			if err != nil {
				return
			}
			if got.Probe() != want.probe || got.WouldReject() != want.would || !got.RecoveredAt().Equal(want.recovered) {
				t.Fatalf("permit %+v, want %+v", got, want)
			}
			permits = append(permits, &pair{got, want})
		}
		done := func(t *rapid.T) {
			if len(permits) == 0 {
				return
			}
			p := rapid.SampledFrom(permits).Draw(t, "permit") // settled ones too
			o := outcomes.Draw(t, "outcome")
			p.real.Done(now, o)
			r.done(p.ref, now, o)
		}
		look := func(t *rapid.T) {
			if diff := cmp.Diff(r.snapshot(now), b.Snapshot(now)); diff != "" {
				t.Fatalf("snapshot (-want +got):\n%s", diff)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"allow": allow, "allow again": allow, "done": done, "done again": done, "snapshot": look,
			"call": func(t *rapid.T) {
				now = now.Add(pauses.Draw(t, "pause"))
				if n := len(permits); n == 0 || !permits[n-1].ref.settled {
					allow(t)
				}
				done(t)
			},
			"successes": func(t *rapid.T) { // enough to fill a window of calls
				for range rapid.IntRange(1, 12).Draw(t, "calls") {
					allow(t)
					if n := len(permits); n > 0 && !permits[n-1].ref.settled {
						permits[n-1].real.Done(now, success)
						r.done(permits[n-1].ref, now, success)
					}
				}
			},
			"wait": func(t *rapid.T) { now = now.Add(pauses.Draw(t, "pause")) },
			"late clock": func(t *rapid.T) {
				saved := now
				now = now.Add(-pauses.Draw(t, "behind"))
				allow(t)
				done(t)
				look(t)
				now = saved
			},
			"control": func(t *rapid.T) {
				switch rapid.SampledFrom([]string{"policy", "force", "reset"}).Draw(t, "kind") {
				case "policy":
					p := policies.Draw(t, "policy")
					b.SetPolicy(now, p)
					r.setPolicy(now, p)
				case "force":
					f := orders.Draw(t, "order")
					b.Force(now, f)
					r.force(now, f)
				case "reset":
					b.Reset(now)
					r.reset(now)
				}
			},
			"": func(t *rapid.T) { // after each of them
				if diff := cmp.Diff(r.told, told); diff != "" {
					t.Fatalf("transitions (-want +got):\n%s", diff)
				}
				if got, want := b.RetryAfter(now), r.retryAfter(now); got != want {
					t.Fatalf("RetryAfter = %v, want %v", got, want)
				}
				for _, p := range permits {
					if got, want := p.real.Live(), p.ref.in == r.spell; got != want {
						t.Fatalf("Live = %v, want %v", got, want)
					}
				}
			},
		})
	})
}

// TestProbesNeverExceedTheirPlaces looks at the one promise of half-open from
// outside: of the probes of one era, those in flight and those that succeeded
// are never more than Probes.
func TestProbesNeverExceedTheirPlaces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := start
		p := policies.Draw(t, "policy")
		p.Mode = rapid.SampledFrom([]breaker.Mode{breaker.Enforce, breaker.Observe}).Draw(t, "mode")
		p.ConsecutiveFailures = 1
		taken := 0
		b := breaker.New(now, p, func(breaker.Transition) { taken = 0 })
		var probes []*breaker.Permit
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(pauses.Draw(t, "pause"))
			permit, err := b.Allow(now)
			switch {
			case err == nil && permit.Probe():
				probes = append(probes, &permit)
				if taken++; taken > p.Probes {
					t.Fatalf("%d probes, want at most %d", taken, p.Probes)
				}
			case err == nil:
				permit.Done(now, failure)
			}
			if len(probes) > 0 && rapid.Bool().Draw(t, "end one") {
				o := outcomes.Draw(t, "outcome")
				if probes[0].Live() && o&(success|failure) == 0 {
					taken--
				}
				probes[0].Done(now, o)
				probes = probes[1:]
			}
		}
	})
}

// TestObserveDecidesAsEnforceDoes gives an observing breaker every call, and an
// enforcing one those that it admits: their decisions and states are equal.
func TestObserveDecidesAsEnforceDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := start
		p := policies.Draw(t, "policy")
		var told, toldEnforcing []breaker.Transition
		p.Mode = breaker.Observe
		observing := breaker.New(now, p, func(tr breaker.Transition) { told = append(told, tr) })
		p.Mode = breaker.Enforce
		enforcing := breaker.New(now, p, func(tr breaker.Transition) { toldEnforcing = append(toldEnforcing, tr) })
		type both struct{ o, e *breaker.Permit }
		var running []both
		refused := uint64(0)
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			now = now.Add(pauses.Draw(t, "pause"))
			o, err := observing.Allow(now)
			if err != nil {
				t.Fatalf("observe mode refused: %v", err)
			}
			e, err := enforcing.Allow(now)
			if o.WouldReject() != (err != nil) || o.Probe() != e.Probe() {
				t.Fatalf("would reject: %v, probe: %v; enforcing: %v, %v", o.WouldReject(), o.Probe(), err, e.Probe())
			}
			if err != nil {
				refused++
			}
			running = append(running, both{&o, &e})
			for len(running) > 0 && rapid.Bool().Draw(t, "end one") {
				i := rapid.IntRange(0, len(running)-1).Draw(t, "which")
				outcome := outcomes.Draw(t, "outcome")
				running[i].o.Done(now, outcome)
				running[i].e.Done(now, outcome)
				running = append(running[:i], running[i+1:]...)
			}
		}
		if diff := cmp.Diff(toldEnforcing, told); diff != "" {
			t.Fatalf("transitions (-enforcing +observing):\n%s", diff)
		}
		want, got := enforcing.Snapshot(now), observing.Snapshot(now)
		want.Mode, want.WouldReject = breaker.Observe, refused
		want.RecoveredAt = time.Time{} // an observing breaker slows nobody down
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("snapshot (-enforcing +observing):\n%s", diff)
		}
	})
}
