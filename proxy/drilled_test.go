package proxy

import (
	"net"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"sidecar/resilience/breaker"
)

// The orders of the tests, for a minute.
var (
	drillError   = Drill{Fault: FaultError, Status: 503, Share: 1, For: time.Minute}
	drillRefuse  = Drill{Fault: FaultRefuse, Share: 1, For: time.Minute}
	drillLatency = Drill{Fault: FaultLatency, Latency: ms(300), Share: 1, For: time.Minute}
)

// drillBody is what a drill answers in the upstream's place.
func drillBody(status int) string {
	return problemBody(status, "Fire drill: the sidecar answers in the dependency's place.", ReasonStatus)
}

const drilledConnect = "Fire drill: No connection to the dependency could be made."

// wantDrilled checks what an answer says of the drill, and what was withheld.
func (r *rig) wantDrilled(got *answer, fault, proxyStatus string, withheld bool) {
	r.Helper()
	if h := got.header; h.Get("Sidecar-Drill") != fault || h.Get("Proxy-Status") != proxyStatus {
		r.Errorf("Sidecar-Drill: %s, Proxy-Status: %s; want %s and %s", h.Get("Sidecar-Drill"), h.Get("Proxy-Status"), fault, proxyStatus)
	}
	if call := r.lastCall(); call.Drill != fault {
		r.Errorf("the call tells of the drill %q, want %q", call.Drill, fault)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if last := r.attempts[len(r.attempts)-1]; last.Withheld != withheld || (last.Drill != "") != (fault != "") {
		r.Errorf("the attempt is told as %+v, want withheld %v", last, withheld)
	}
}

// An injected status is judged like the upstream's own: one in failure.statuses
// is a failure, any other is not.
func TestDrillError(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		r.d.Drill(drillError)
		got := r.get("/")
		got.want(t, 503, drillBody(503), 0)
		r.wantDrilled(got, "error 503", drillStatus, true)
		if h := r.lastCall(); h.Outcome != OutcomeFailed || h.Reason != ReasonStatus || h.Attempts != 1 {
			r.Errorf("heard %+v", h)
		}
		r.wantEvidence(failure)
		order := drillError
		order.Status = 429
		r.d.Drill(order)
		got = r.get("/")
		got.want(t, 429, drillBody(429), 0)
		r.wantDrilled(got, "error 429", drillStatus, true)
		if h := r.lastCall(); h.Outcome != OutcomeOK {
			r.Errorf("heard %+v", h)
		}
		r.wantEvidence(evidence{calls: 2, failures: 1})
		head := r.call(caller{method: "HEAD"})
		head.want(t, 429, "", 0)
		if head.header.Get("Content-Length") != got.header.Get("Content-Length") {
			r.Errorf("HEAD says Content-Length %q, GET %q", head.header.Get("Content-Length"), got.header.Get("Content-Length"))
		}
		if got := r.results(); !slices.Equal(got, []Result{"status", "success", "success"}) {
			r.Errorf("results %v", got)
		}
	})
}

// A body of known length is taken in, as an upstream does; one that may never
// end is not waited for.
func TestDrillErrorTakesTheBody(t *testing.T) {
	slow := []step{{text: "a"}, {after: ms(700), text: "b"}}
	for _, c := range []struct {
		length int64
		took   time.Duration
		closes string
	}{{0, ms(700), ""}, {-1, 0, "close"}} {
		bubble(t, nil, func(r *rig) {
			r.d.Drill(drillError)
			got := r.call(caller{method: "POST", body: slow, length: c.length})
			got.want(t, 503, drillBody(503), c.took)
			if got.header.Get("Connection") != c.closes {
				r.Errorf("length %d: Connection: %q, want %q", c.length, got.header.Get("Connection"), c.closes)
			}
		})
	}
	// A caller that stops is to blame, not the drill.
	bubble(t, nil, func(r *rig) {
		r.d.Drill(drillError)
		got := r.call(caller{method: "POST", body: text("a"), length: 10})
		if h := r.lastCall(); got.status != 408 || h.Outcome != OutcomeCanceled || h.Duration != 2*time.Second {
			r.Errorf("got %d, heard %+v; want 408, canceled", got.status, h)
		}
		r.wantEvidence(nothing)
	})
}

// A refused connection has provably sent nothing: any request is retried.
func TestDrillRefuse(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		r.d.Drill(drillRefuse)
		got := r.get("/")
		got.want(t, 502, problemBody(502, drilledConnect, ReasonConnect), 0)
		r.wantDrilled(got, "refuse", drillStatus, true)
		r.wantEvidence(failure)
	})
	bubble(t, retries(1), func(r *rig) {
		r.d.Drill(drillRefuse)
		r.call(caller{method: "POST", body: text("x")})
		if h := r.lastCall(); h.Attempts != 2 || h.Denied != "" {
			r.Errorf("heard %+v, want two attempts", h)
		}
		r.d.Drill(drillError)
		r.call(caller{method: "POST", body: text("x")})
		if h := r.lastCall(); h.Attempts != 1 || h.Denied != DeniedMethod {
			r.Errorf("heard %+v, want one attempt, denied by its method", h)
		}
	})
}

// A retry that meets no drill brings the upstream's answer, which tells that a
// drill touched its call.
func TestRetryAfterADrilledAttempt(t *testing.T) {
	bubble(t, retries(1), func(r *rig) {
		r.d.drills.chance = draws(0.4, 0.5)
		order := drillError
		order.Share = 0.5
		r.d.Drill(order)
		r.up.will(reply{body: text("it")})
		got := r.get("/")
		got.want(t, 200, "it", 0)
		if h := r.lastCall(); got.header.Get("Sidecar-Drill") != "error 503" || h.Drill != "error 503" || h.Outcome != OutcomeOK || h.Attempts != 2 {
			r.Errorf("header %v, heard %+v", got.header, h)
		}
		r.up.will(reply{status: 500, body: text("bad")})
		r.d.drills.chance = draws(0.4, 0.5)
		r.update(fallbacks(static(200, "own")))
		got = r.get("/")
		got.want(t, 200, "own", 0)
		if ps := got.header.Get("Proxy-Status"); ps != `sidecar; received-status=500; details="status"` {
			r.Errorf("Proxy-Status: %s, want the upstream's own failure", ps)
		}
	})
}

// draws is a chance that gives these numbers, then 1: no further attempt.
func draws(numbers ...float64) func() float64 {
	return func() float64 {
		if len(numbers) == 0 {
			return 1
		}
		next := numbers[0]
		numbers = numbers[1:]
		return next
	}
}

// The share picks attempts by chance, exactly below it.
func TestDrillShare(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		r.d.drills.chance = draws(0, 0.2499, 0.25, 0.9, 0.1)
		order := drillError
		order.Share = 0.25
		r.d.Drill(order)
		r.up.will(reply{body: text("it")})
		for _, want := range []int{503, 503, 200, 200, 503} {
			if got := r.get("/"); got.status != want || (got.header.Get("Sidecar-Drill") != "") != (want == 503) {
				r.Errorf("got %d with %v, want %d", got.status, got.header, want)
			}
		}
		if s := r.d.Snapshot().Drill; s.Injected != 3 {
			r.Errorf("%d injected, want 3", s.Injected)
		}
	})
}

// What a drill is for: the circuit opens, callers get their copies with the
// true reason, and all is well again once it has ended.
func TestDrillOpensTheCircuit(t *testing.T) {
	bubble(t, both(trips(3), keepsCopies), func(r *rig) {
		r.up.will(good("AB"))
		r.get("/x")
		order := drillRefuse
		order.For = 10 * time.Second
		r.d.Drill(order)
		for range 2 {
			got := r.get("/x")
			got.wantStale(t, "AB", ReasonConnect, 0)
			r.wantDrilled(got, "refuse", drillStatus, true)
		}
		r.wantState(breaker.Closed) // a near miss
		r.get("/x")
		r.wantState(breaker.Open)
		got := r.get("/x")
		got.wantStale(t, "AB", ReasonOpen, 0)
		if got.header.Get("Sidecar-Drill") != "" {
			r.Errorf("a refused call has met no drill: %v", got.header)
		}
		time.Sleep(time.Second)
		r.get("/x").wantStale(t, "AB", ReasonConnect, 1) // the probe
		r.wantState(breaker.Open)
		time.Sleep(9 * time.Second)
		r.get("/x").want(t, 200, "AB", 0)
		r.wantState(breaker.Closed)
	})
}

// A copy is neither made, renewed nor dropped by what a drill answers.
func TestDrillTouchesNoCopy(t *testing.T) {
	bubble(t, keepsCopies, func(r *rig) {
		r.up.will(good("AB"))
		r.get("/x")
		for _, status := range []int{404, 410} {
			order := drillError
			order.Status = status
			r.d.Drill(order)
			r.get("/x").want(t, status, drillBody(status), 0)
			r.call(caller{method: "DELETE", target: "/x"}).want(t, status, drillBody(status), 0)
		}
		r.d.Drill(drillError)
		r.get("/x").wantStale(t, "AB", ReasonStatus, 0)
		r.get("/y").want(t, 503, drillBody(503), 0)
		if n := r.d.Snapshot().Copies.Entries; n != 1 {
			r.Errorf("%d copies, want 1", n)
		}
	})
}

// To a gRPC caller a drill answers as the sidecar would.
func TestDrillOfGRPC(t *testing.T) {
	bubble(t, failsLikeGRPC, func(r *rig) {
		for _, c := range []struct {
			order Drill
			code  string
			want  evidence
		}{
			{drillError, "14", evidence{1, 1, 0}},
			{Drill{Fault: FaultError, Status: 504, Share: 1, For: time.Minute}, "4", evidence{2, 1, 0}},
			{drillRefuse, "14", evidence{3, 2, 0}},
		} {
			r.d.Drill(c.order)
			ask := asGRPC()
			ask.length = -1
			got := r.call(ask)
			got.want(t, 200, "", 0)
			if h := got.header; h.Get("Grpc-Status") != c.code || h.Get("Content-Type") != "application/grpc" || h.Get("Grpc-Message") == "" {
				r.Errorf("%v: got %v", c.order, h)
			}
			r.wantDrilled(got, c.order.String(), drillStatus, true)
			r.wantEvidence(c.want)
		}
	})
}

// An upgrade and an event stream meet a drill before they begin, and never
// after.
func TestDrillOfLongCalls(t *testing.T) {
	upgrade := http.Header{"Connection": {"Upgrade"}, "Upgrade": {"echo"}}
	bubble(t, nil, func(r *rig) {
		r.d.Drill(drillError)
		r.call(caller{header: upgrade}).want(t, 503, drillBody(503), 0)
		r.d.Drill(drillLatency)
		near, far := net.Pipe()
		r.up.will(reply{status: 101, header: upgrade, switches: near})
		began := time.Now()
		got := r.start(caller{header: upgrade, hears: time.Hour})
		head := make([]byte, 512)
		n, _ := got.app.Read(head)
		if since := time.Since(began); since != ms(300) || !slices.Contains(splitLines(string(head[:n])), "Sidecar-Drill: latency 300ms") {
			r.Errorf("after %v: %q", since, head[:n])
		}
		_ = far.Close()
		_ = got.app.Close()
		got.wait()
	})
	bubble(t, nil, func(r *rig) {
		r.up.will(reply{
			header: http.Header{"Content-Type": {"text/event-stream"}}, length: -1,
			body: []step{{text: "1"}, {after: 10 * time.Second, text: "2"}},
		})
		stream := r.start(caller{})
		synctest.Wait()
		r.d.Drill(drillError)
		stream.wait().want(t, 200, "12", 10*time.Second)
		if stream.header.Get("Sidecar-Drill") != "" {
			r.Errorf("a stream from before the drill: %v", stream.header)
		}
		r.get("/").want(t, 503, drillBody(503), 0)
	})
}
