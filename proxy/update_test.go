package proxy

import (
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"sidecar/resilience/breaker"
)

func moved(s *Settings) { s.Upstream = &url.URL{Scheme: "http", Host: "elsewhere.internal"} }

// What a reload did not change is not touched.
func TestUpdateKeeps(t *testing.T) {
	bubble(t, both(keepsCopies, trips(1)), func(r *rig) {
		r.up.will(good("AB"), reply{status: 500})
		r.get("/x")
		r.get("/trip")
		until, pool := r.d.Snapshot().Breaker.OpenUntil, r.d.current.Load().pool
		r.update(func(s *Settings) { s.Timeout, s.Breaker.Cooldown = time.Second, time.Minute })
		if got := r.d.Snapshot().Breaker; got.State != breaker.Open || !got.OpenUntil.Equal(until) {
			r.Errorf("the circuit is %v until %v, want open until %v", got.State, got.OpenUntil, until)
		}
		if r.d.current.Load().pool != pool {
			r.Error("the connections were thrown away")
		}
		r.get("/x").wantStale(t, "AB", ReasonOpen, 0)
	})
}

// A changed upstream gets new connections and a fresh breaker, and nothing
// that the old one said.
func TestUpdateMoves(t *testing.T) {
	bubble(t, both(keepsCopies, trips(1)), func(r *rig) {
		r.up.will(good("AB"), reply{status: 500})
		r.get("/x")
		r.get("/trip")
		old := r.d.current.Load().pool
		r.update(moved)
		r.wantState(breaker.Closed)
		if r.d.current.Load().pool == old {
			r.Error("the old connections are still used")
		}
		r.up.will(reply{fails: errReset})
		r.get("/x").want(t, 502, problemBody(502, "The dependency closed the connection before its answer was complete.", ReasonReset), 0)
		if q := r.up.request(2); q.host != "elsewhere.internal" {
			r.Errorf("sent to %s", q.host)
		}
		if got := r.d.Snapshot().Upstream; got != "http://elsewhere.internal" {
			r.Errorf("shown as %s", got)
		}
	})
}

// Calls of before end at the old upstream, and what becomes of them says
// nothing of the new one: neither those under way, nor those that wait for a
// permit, nor their retries.
func TestUpdateMovesUnderCalls(t *testing.T) {
	bubble(t, both(trips(1), func(s *Settings) { s.Bulkhead.MaxConcurrent = 2 }, retries(1)), func(r *rig) {
		r.up.will(reply{after: ms(300), status: 500}, after503("1"), reply{status: 500}, reply{status: 500})
		r.start(caller{target: "/running"})
		synctest.Wait()
		r.start(caller{target: "/retrying"})
		synctest.Wait()
		r.d.Force(breaker.Auto) // closed again after the 503
		waits := r.start(caller{target: "/waiting"})
		time.Sleep(ms(100))
		r.update(moved)
		for _, a := range r.made {
			a.wait()
		}
		r.wantState(breaker.Closed)
		r.wantEvidence(nothing)
		if waits.status != 500 || r.up.count() != 4 {
			r.Errorf("the waiting call got %d, upstream saw %d; want 500, 4", waits.status, r.up.count())
		}
		for i := range 4 {
			if q := r.up.request(i); q.host != "upstream.internal" {
				r.Errorf("%s was sent to %s", q.target, q.host)
			}
		}
		r.get("/new")
		r.wantEvidence(failure)
		r.wantState(breaker.Open)
	})
}

// A call keeps the settings it began with.
func TestUpdateSparesCalls(t *testing.T) {
	bubble(t, both(keepsCopies, noTries), func(r *rig) {
		r.up.will(reply{after: forever})
		a := r.start(caller{})
		time.Sleep(time.Second)
		r.update(func(s *Settings) { s.Timeout, s.Fallback = ms(10), []Fallback{static(200, "own")} })
		if a.wait(); a.status != 504 || a.took != 2*time.Second {
			r.Errorf("got %d after %v, want 504 after 2s", a.status, a.took)
		}
		r.get("/").want(t, 200, "own", ms(10))
	})
}

// A raised limit lets waiters in at once.
func TestUpdateWakesWaiters(t *testing.T) {
	bubble(t, size(1, 1, 0), func(r *rig) {
		r.up.will(reply{after: ms(300), body: text("it")})
		r.start(caller{})
		synctest.Wait()
		a := r.start(caller{})
		time.Sleep(ms(100))
		r.update(size(2, 1, 0))
		a.wait().want(t, 200, "it", ms(400))
	})
}

// A changed budget takes hold for the calls that run.
func TestUpdateBudget(t *testing.T) {
	bubble(t, retries(1), func(r *rig) {
		r.up.will(after503("1"))
		r.start(caller{})
		synctest.Wait()
		r.update(func(s *Settings) { s.Retry.Budget.MinPerSecond = 0 })
		r.made[0].wait()
		if h := r.lastCall(); h.Denied != DeniedBudget {
			r.Errorf("denied %q, want budget", h.Denied)
		}
	})
}

// InFlight counts waiting calls too; Idle tells how long ago the last came.
func TestIdleAndInFlight(t *testing.T) {
	bubble(t, size(1, 1, 0), func(r *rig) {
		if r.d.Idle() < time.Hour || r.d.Name() != "payments" {
			r.Errorf("idle for %v before the first call", r.d.Idle())
		}
		r.up.will(reply{after: ms(400)})
		r.start(caller{})
		time.Sleep(ms(100))
		r.start(caller{})
		time.Sleep(ms(50))
		if n, idle := r.d.InFlight(), r.d.Idle(); n != 2 || idle != ms(50) {
			r.Errorf("%d in flight, idle for %v; want 2, 50ms", n, idle)
		}
	})
}

// An observing breaker counts what it would have refused and refuses nothing.
func TestObserve(t *testing.T) {
	bubble(t, both(trips(1), func(s *Settings) { s.Breaker.Mode = breaker.Observe }), func(r *rig) {
		r.up.will(reply{status: 500}, reply{body: text("it")})
		r.get("/")
		r.wantState(breaker.Open)
		r.get("/").want(t, 200, "it", 0)
		if n := r.d.Snapshot().Breaker.WouldReject; n != 1 {
			r.Errorf("%d would have been refused, want 1", n)
		}
	})
}

// The host of the caller never chooses where a call goes.
func TestHostDoesNotRoute(t *testing.T) {
	bubble(t, func(s *Settings) { s.PreserveHost = true }, func(r *rig) {
		var to string
		r.d.current.Load().pool.instead = roundTripperFunc(func(req *http.Request) (*http.Response, error) {
			to = req.URL.Host
			return r.up.RoundTrip(req)
		})
		r.call(caller{target: "http://evil/x", host: "evil"})
		if to != "upstream.internal" {
			r.Errorf("sent to %s", to)
		}
	})
}
