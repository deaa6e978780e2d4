package proxy

import (
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"sidecar/resilience/breaker"
)

// randomReply is anything that an upstream may do.
func randomReply(rnd *rand.Rand) reply {
	body := []step{{text: "ab"}, {after: time.Duration(rnd.IntN(20)) * time.Millisecond, text: "cd"}}
	up := reply{after: time.Duration(rnd.IntN(60)) * time.Millisecond, early: rnd.IntN(4) == 0, body: body}
	switch rnd.IntN(10) {
	case 0:
		up.status = 500
	case 1:
		up.status, up.header = 503, http.Header{"Retry-After": {"0"}}
	case 2:
		up.fails = errReset
	case 3:
		up.noConn, up.fails = true, errRefused
	case 4:
		up.body = []step{{text: "ab"}, {after: ms(5), err: errReset}}
		up.length = 9
	case 5:
		up.after = forever
	case 6:
		up.header = http.Header{"Content-Type": {"text/event-stream"}}
		up.length = -1
	}
	return up
}

// randomCaller is anything that a caller may do.
func randomCaller(rnd *rand.Rand) caller {
	c := caller{target: []string{"/a", "/b", "/c?d"}[rnd.IntN(3)]}
	switch rnd.IntN(6) {
	case 0:
		c.method, c.body = "POST", []step{{text: "one"}, {after: time.Duration(rnd.IntN(80)) * time.Millisecond, text: "two"}}
	case 1:
		c.method, c.length, c.body = "PUT", -1, []step{{text: "one"}, {text: "two"}}
	case 2:
		c.method, c.length, c.body = "PUT", 100, []step{{text: "stalls"}}
	case 3:
		c.method = "HEAD"
	}
	if rnd.IntN(4) == 0 {
		c.leaves = time.Duration(1+rnd.IntN(100)) * time.Millisecond
	}
	return c
}

// Whatever upstream and callers do, while settings change and an operator
// meddles: each call is told once, and all that was taken is given back.
func TestStress(t *testing.T) {
	settings := both(retries(2), timeouts(ms(40), ms(120)), keepsCopies, trips(5), func(s *Settings) {
		s.Breaker.Cooldown, s.Breaker.Probes = ms(30), 2
		s.Bulkhead.MaxConcurrent, s.Bulkhead.MaxWaiting, s.Bulkhead.QueueTimeout, s.Bulkhead.Ramp = 20, 50, ms(30), ms(50)
		s.MaxRequestBytes = 50
	}, proposes(shadowTrips(2), shadowSize(3, 9, ms(10))))
	bubble(t, settings, func(r *rig) {
		rnd := rand.New(rand.NewPCG(1, 2))
		r.up.choose = func(int, *request) reply { return randomReply(rnd) } // called with the upstream's mutex held
		for round := range 10 {
			for range 200 {
				r.start(randomCaller(rand.New(rand.NewPCG(uint64(len(r.made)), 3))))
			}
			time.Sleep(ms(100)) // all have begun, many have not ended
			switch round {
			case 3:
				r.update(moved)
			case 5:
				r.update(func(s *Settings) { s.Bulkhead.MaxConcurrent = 5 })
				r.update(proposes(shadowTrips(1), shadowSize(7, 0, 0)))
			case 6:
				r.d.Force(breaker.ForcedClosed)
			case 8:
				r.d.Force(breaker.Auto)
			}
		}
		for _, a := range r.made {
			a.wait()
		}
		seen := map[Outcome]int{}
		for _, c := range r.calls {
			seen[c.Outcome]++
			if (c.Outcome == OutcomeRejected) != (c.Refused && c.Source == "") || (c.Outcome == OutcomeFallback) != (c.Source != "") {
				r.Errorf("contradicts itself: %+v", c)
			}
		}
		time.Sleep(time.Second) // simulated calls may last longer than the real ones
		if b := r.d.Snapshot().Shadow.Bulkhead; b.InUse != 0 || b.Waiting != 0 {
			r.Errorf("left over in the simulated bulkhead: %+v", b)
		}
		for _, o := range Outcomes {
			if seen[o] == 0 {
				r.Errorf("no call ended as %s: the test has lost its breadth (%v)", o, seen)
			}
		}
	})
}
