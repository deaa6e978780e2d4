package proxy

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Fault names what a drill injects.
type Fault string

// The faults.
const (
	FaultLatency Fault = "latency" // the attempt waits, then goes on to the upstream
	FaultError   Fault = "error"   // a status is answered in the upstream's place
	FaultRefuse  Fault = "refuse"  // the connection is refused
)

// Faults lists every [Fault].
var Faults = []Fault{FaultLatency, FaultError, FaultRefuse}

// Drill is an operator's order to inject a fault, so that a team can see its
// fallbacks work before the night they are needed.
type Drill struct {
	Fault   Fault
	Latency time.Duration // of [FaultLatency]: above 0
	Status  int           // of [FaultError]: 400–599
	Share   float64       // of the attempts, picked by chance: above 0, at most 1
	For     time.Duration // how long it runs: above 0
}

// String names the fault with its measure, such as "latency 8s".
func (d Drill) String() string {
	switch d.Fault {
	case FaultLatency:
		return fmt.Sprintf("%s %s", d.Fault, d.Latency)
	case FaultError:
		return fmt.Sprintf("%s %d", d.Fault, d.Status)
	default:
		return string(d.Fault)
	}
}

// DrillEnd says why a drill ended; empty while it runs.
type DrillEnd string

// The ends of a drill.
const (
	DrillOver      DrillEnd = "over"      // its time has passed
	DrillStopped   DrillEnd = "stopped"   // an operator stopped it
	DrillReplaced  DrillEnd = "replaced"  // an operator began another one
	DrillMoved     DrillEnd = "upstream"  // the upstream was changed
	DrillRemoved   DrillEnd = "removed"   // the dependency was removed
	DrillForbidden DrillEnd = "forbidden" // the configuration no longer allows drills
	DrillShutdown  DrillEnd = "shutdown"  // the process drains or ends
)

// DrillSnapshot is a drill at one moment.
type DrillSnapshot struct {
	Drill
	Until    time.Time
	Injected uint64 // attempts that have met it
}

// DrillChange is the beginning of a drill, or its end.
type DrillChange struct {
	DrillSnapshot
	At    time.Time
	Ended DrillEnd // empty at the beginning
}

// drills runs at most one drill at a time. It is safe for concurrent use. While
// none runs it costs an attempt one atomic load.
type drills struct {
	running atomic.Pointer[drill]
	chance  func() float64    // in [0, 1)
	tell    func(DrillChange) // must not call back

	// mu serialises beginnings and ends. It is held while they are told, so
	// that they are heard in their order.
	mu sync.Mutex
}

// drill is one that runs, or has run.
type drill struct {
	Drill
	until    time.Time
	timer    *time.Timer   // ends it
	over     chan struct{} // closed at its end: nobody is held up any longer
	injected atomic.Uint64
}

// prepare makes drills possible; chance picks the attempts.
func (s *drills) prepare(tell func(DrillChange)) { s.chance, s.tell = rand.Float64, tell }

// begin starts a drill in the place of the one that runs, if any.
func (s *drills) begin(order Drill) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(DrillReplaced)
	now := time.Now()
	d := &drill{Drill: order, until: now.Add(order.For), over: make(chan struct{})}
	d.timer = time.AfterFunc(order.For, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.running.Load() == d {
			s.end(DrillOver)
		}
	})
	s.running.Store(d)
	s.tell(DrillChange{DrillSnapshot: d.snapshot(), At: now})
}

// stop ends the drill that runs, and reports whether there was one.
func (s *drills) stop(why DrillEnd) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end(why)
}

// end is stop for callers that hold mu.
func (s *drills) end(why DrillEnd) bool {
	d := s.running.Swap(nil)
	if d == nil {
		return false
	}
	d.timer.Stop()
	close(d.over)
	s.tell(DrillChange{DrillSnapshot: d.snapshot(), At: time.Now(), Ended: why})
	return true
}

// meet returns the drill that an attempt of this moment meets, or nil. A timer
// may be late, the clock is not.
func (s *drills) meet(now time.Time) *drill {
	d := s.running.Load()
	if d == nil || !now.Before(d.until) || s.chance() >= d.Share {
		return nil
	}
	d.injected.Add(1)
	return d
}

// snapshot returns the drill that runs, or nil.
func (s *drills) snapshot(now time.Time) *DrillSnapshot {
	d := s.running.Load()
	if d == nil || !now.Before(d.until) {
		return nil
	}
	return new(d.snapshot())
}

func (d *drill) snapshot() DrillSnapshot {
	return DrillSnapshot{Drill: d.Drill, Until: d.until, Injected: d.injected.Load()}
}

// Drill begins a drill in the place of the one that runs, if any. It ends by
// itself, and with it ends what it holds up.
func (d *Dependency) Drill(order Drill) { d.drills.begin(order) }

// EndDrill ends the drill that runs, and reports whether there was one.
func (d *Dependency) EndDrill(why DrillEnd) bool { return d.drills.stop(why) }
