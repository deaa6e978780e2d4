package proxy

import (
	"bufio"
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sidecar/resilience/breaker"
	"sidecar/resilience/bulkhead"
	"sidecar/stale"
)

// forever is longer than anything waits.
const forever = 1000 * time.Hour

// ms is n milliseconds.
func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// usual is a dependency whose breaker only counts, so that verdicts can be
// read from its window; tests change what they are about.
func usual() *Settings {
	return &Settings{
		Upstream: &url.URL{Scheme: "http", Host: "upstream.internal"},
		Breaker: breaker.Policy{
			Window: breaker.Window{Calls: 1000}, MinCalls: 1001, FailureRatio: 1,
			Cooldown: time.Second, Probes: 1,
		},
		Bulkhead: bulkhead.Policy{MaxConcurrent: 10, MaxWaiting: 10, QueueTimeout: ms(500)},
		Policy: Policy{
			Timeout: 2 * time.Second, AttemptTimeout: ms(500), ConnectTimeout: time.Second, IdleTimeout: time.Minute,
			Failure: func(status int) bool { return status >= 500 && status != 501 && status != 505 },
		},
	}
}

// trips makes the breaker open after n failures in a row.
func trips(n int) func(*Settings) {
	return func(s *Settings) { s.Breaker.ConsecutiveFailures = n }
}

// rig drives one dependency in simulated time.
type rig struct {
	*testing.T
	d     *Dependency
	up    *upstream
	store *stale.Store
	*recorder
	made []*answer
}

// bubble runs a test on a dependency with a scripted upstream, in a bubble
// with its own clock. At its end nothing may be left over.
func bubble(t *testing.T, change func(*Settings), test func(*rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := usual()
		if change != nil {
			change(s)
		}
		r := &rig{T: t, up: &upstream{}, store: stale.NewStore(1<<20, 64<<10), recorder: &recorder{}}
		defer r.store.Close()
		r.d = New("payments", s, r.store, r.recorder)
		defer r.d.Close()
		r.d.current.Load().pool.instead = r.up
		test(r)
		for _, a := range r.made {
			a.wait()
		}
		synctest.Wait()
		r.nothingLeft()
	})
}

// nothingLeft checks what holds after every test: all that was taken is given
// back, and the observer has heard of each call and each attempt once.
func (r *rig) nothingLeft() {
	r.Helper()
	snap := r.d.Snapshot()
	if n := r.d.InFlight(); n != 0 || snap.Bulkhead.InUse != 0 || snap.Bulkhead.Waiting != 0 {
		r.Errorf("left over: %d in flight, %d permits, %d waiting", n, snap.Bulkhead.InUse, snap.Bulkhead.Waiting)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	tries := 0
	for _, c := range r.calls {
		tries += c.Attempts
	}
	if len(r.calls) != len(r.made) {
		r.Errorf("CallDone for %d of %d calls", len(r.calls), len(r.made))
	}
	if len(r.attempts) != tries {
		r.Errorf("AttemptDone %d times for %d attempts", len(r.attempts), tries)
	}
	withheld := 0
	for _, a := range r.attempts {
		if a.Withheld {
			withheld++
		}
	}
	if seen := r.up.count() - r.up.unseen; seen != tries-withheld {
		r.Errorf("the upstream saw %d requests, %d attempts were counted and %d withheld", seen, tries, withheld)
	}
}

// update gives the dependency changed settings.
func (r *rig) update(change func(*Settings)) {
	s := *r.d.current.Load().settings
	change(&s)
	r.d.Update(&s)
	if p := r.d.current.Load().pool; p.instead != r.up {
		p.instead = r.up
	}
}

// state is the breaker's.
func (r *rig) state() breaker.State { return r.d.Snapshot().Breaker.State }

// wantState checks the breaker's state.
func (r *rig) wantState(want breaker.State) {
	r.Helper()
	if got := r.state(); got != want {
		r.Fatalf("breaker is %v, want %v", got, want)
	}
}

// evidence is what the breaker has counted.
type evidence struct{ calls, failures, slow int }

func (r *rig) evidence() evidence {
	b := r.d.Snapshot().Breaker
	return evidence{b.Calls, b.Failures, b.Slow}
}

// wantEvidence checks what the breaker has counted.
func (r *rig) wantEvidence(want evidence) {
	r.Helper()
	if got := r.evidence(); got != want {
		r.Errorf("breaker counted %+v, want %+v", got, want)
	}
}

// get makes a plain call and waits for its end.
func (r *rig) get(target string) *answer { return r.call(caller{target: target}) }

// call makes a call and waits for its end.
func (r *rig) call(c caller) *answer { return r.start(c).wait() }

// start makes a call in the background.
func (r *rig) start(c caller) *answer {
	a := c.dial(r.T)
	r.made = append(r.made, a)
	go a.serve(r.d)
	return a
}

// request builds what net/http's server would have read.
func (c *caller) request(t *testing.T) *http.Request {
	t.Helper()
	method, target, host := c.method, c.target, c.host
	if method == "" {
		method = http.MethodGet
	}
	if target == "" {
		target = "/"
	}
	if host == "" {
		host = "127.0.0.1:7001"
	}
	req, err := http.ReadRequest(bufio.NewReader(strings.NewReader(method + " " + target + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n")))
	if err != nil {
		t.Fatal(err)
	}
	for name, lines := range c.header {
		req.Header[http.CanonicalHeaderKey(name)] = lines
	}
	return req.WithContext(context.WithValue(t.Context(), http.ServerContextKey, &http.Server{}))
}

// recorder is an Observer that remembers.
type recorder struct {
	mu       sync.Mutex
	calls    []Call
	attempts []Attempt
	changes  []breaker.Transition
	shadows  []breaker.Transition
	drills   []DrillChange
}

func (o *recorder) CallDone(c Call) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls = append(o.calls, c)
}

func (o *recorder) AttemptDone(a Attempt) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.attempts = append(o.attempts, a)
}

func (o *recorder) BreakerChanged(_ string, t breaker.Transition) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.changes = append(o.changes, t)
}

func (o *recorder) ShadowChanged(_ string, t breaker.Transition) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.shadows = append(o.shadows, t)
}

func (o *recorder) DrillChanged(_ string, c DrillChange) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.drills = append(o.drills, c)
}

// lastCall is the call that ended last.
func (r *rig) lastCall() Call {
	r.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.calls) == 0 {
		r.Fatal("no call has ended")
	}
	return r.calls[len(r.calls)-1]
}

// results lists how the attempts ended, in order.
func (r *rig) results() []Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []Result
	for _, a := range r.attempts {
		all = append(all, a.Result)
	}
	return all
}

func itoa(n int) string { return strconv.Itoa(n) }
