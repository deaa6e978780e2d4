package proxy

import (
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// splitLines splits a message's head.
func splitLines(s string) []string { return strings.Split(s, "\r\n") }

// told lists what the observer has heard of drills.
func (r *rig) told() []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for _, c := range r.drills {
		what := "begin"
		if c.Ended != "" {
			what = string(c.Ended)
		}
		all = append(all, what+" "+c.String())
	}
	return all
}

func (r *rig) wantTold(want ...string) {
	r.Helper()
	if diff := cmp.Diff(want, r.told()); diff != "" {
		r.Errorf("told (-want +got):\n%s", diff)
	}
}

// A drill ends by itself, to the nanosecond, and is told once.
func TestDrillEndsByItself(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		if s := r.d.Snapshot().Drill; s != nil {
			r.Errorf("a drill before any order: %+v", s)
		}
		began := time.Now()
		order := drillError
		order.For = 10 * time.Second
		r.d.Drill(order)
		time.Sleep(10*time.Second - 1)
		r.get("/").want(t, 503, drillBody(503), 0)
		s := r.d.Snapshot().Drill
		if s == nil || s.Drill != order || s.Injected != 1 || !s.Until.Equal(began.Add(10*time.Second)) {
			r.Errorf("snapshot %+v", s)
		}
		r.wantTold("begin error 503")
		time.Sleep(time.Nanosecond)
		r.get("/").want(t, 200, "", 0)
		if s := r.d.Snapshot().Drill; s != nil {
			r.Errorf("a drill after its end: %+v", s)
		}
		r.wantTold("begin error 503", "over error 503")
		if end := r.drills[1]; end.Injected != 1 || !end.At.Equal(began.Add(10*time.Second)) {
			r.Errorf("the end is told as %+v", end)
		}
		if r.d.EndDrill(DrillStopped) {
			r.Error("a drill that was over has been stopped")
		}
		r.wantTold("begin error 503", "over error 503")
	})
}

// What a drill holds up goes on when it ends, however that comes.
func TestEndOfADrillLetsGo(t *testing.T) {
	order := Drill{Fault: FaultLatency, Latency: time.Hour, Share: 1, For: time.Second}
	bubble(t, noTries, func(r *rig) {
		r.up.will(reply{body: text("it")})
		r.d.Drill(order)
		r.get("/").want(t, 200, "it", time.Second)
		r.d.Drill(order)
		waiting := r.start(caller{})
		time.Sleep(ms(400))
		if !r.d.EndDrill(DrillStopped) {
			r.Error("there was nothing to stop")
		}
		waiting.wait().want(t, 200, "it", ms(400))
		r.wantTold("begin latency 1h0m0s", "over latency 1h0m0s", "begin latency 1h0m0s", "stopped latency 1h0m0s")
	})
}

// There is one drill at a time: a new one takes the old one's place, and the
// old one's time no longer matters.
func TestDrillIsReplaced(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		short := drillRefuse
		short.For = time.Second
		r.d.Drill(short)
		r.d.Drill(drillError)
		time.Sleep(30 * time.Second)
		r.get("/").want(t, 503, drillBody(503), 0)
		r.wantTold("begin refuse", "replaced refuse", "begin error 503")
	})
}

// New settings leave a drill alone, another upstream ends it.
func TestDrillAndUpdate(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		r.d.Drill(drillError)
		r.update(func(s *Settings) { s.Timeout = time.Minute })
		r.get("/").want(t, 503, drillBody(503), 0)
		r.update(func(s *Settings) { s.Upstream = &url.URL{Scheme: "http", Host: "other.internal"} })
		r.get("/").want(t, 200, "", 0)
		r.wantTold("begin error 503", "upstream error 503")
	})
}

// A closed dependency's drill is over, and its timer with it.
func TestCloseEndsADrill(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		r.d.Drill(drillError)
		r.d.Close()
		time.Sleep(time.Hour)
		r.wantTold("begin error 503", "shutdown error 503")
	})
}

// Orders, ends and attempts at the same time.
func TestDrillConcurrently(t *testing.T) {
	bubble(t, func(s *Settings) { s.Bulkhead.MaxConcurrent = 100 }, func(r *rig) {
		order := drillLatency
		order.Latency = 1
		for range 50 {
			r.start(caller{})
			go r.d.Drill(order)
			go r.d.EndDrill(DrillStopped)
			go r.d.Snapshot()
		}
		synctest.Wait()
		r.d.EndDrill(DrillStopped)
		begun, ended := 0, 0
		for _, word := range r.told() {
			if strings.HasPrefix(word, "begin") {
				begun++
			} else {
				ended++
			}
			if begun-ended != 0 && begun-ended != 1 {
				r.Fatalf("%d begun, %d ended: not in order", begun, ended)
			}
		}
		if begun != 50 || ended != 50 {
			r.Errorf("%d begun, %d ended, want 50 each", begun, ended)
		}
	})
}

// While no drill runs an attempt pays next to nothing for the question.
func BenchmarkNoDrill(b *testing.B) {
	var s drills
	s.prepare(func(DrillChange) {})
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		if s.meet(now) != nil {
			b.Fatal("met a drill")
		}
	}
}
