package load

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Stream is calls to one target at a steady rate.
type Stream struct {
	Target *Target
	Rate   int // calls a second
}

// arrival is one call that waits for a worker.
type arrival struct {
	stream, phase int
	at            time.Time
}

// Phase is a stretch of a Pool's time whose calls are counted apart.
type Phase struct {
	Length time.Duration
	Begin  func() // what changes at its beginning; nil = nothing
}

// Pool is an app with a fixed number of workers: calls arrive through all
// phases, stand in one line and are made by whichever worker is free. There is
// a result for each phase and, in it, for each stream; a call belongs to the
// phase in which it arrived. Workers keep their connections from phase to
// phase. Latency counts from arrival, for failed calls too; a call that no
// worker has finished at the end of the last phase has failed, and counts with
// the time that it has waited, which is less than it would have taken.
func Pool(ctx context.Context, workers int, streams []Stream, phases ...Phase) [][]Result {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := &pool{streams: streams, results: make([][]Result, len(phases))}
	var total time.Duration
	for i, phase := range phases {
		p.results[i] = make([]Result, len(streams))
		total += phase.Length
	}
	calls := 0
	for _, s := range streams {
		calls += int(total.Seconds()*float64(s.Rate)) + 1
	}
	p.line = make(chan arrival, calls)

	var arriving, working sync.WaitGroup
	for i := range streams {
		arriving.Go(func() { p.arrive(ctx, i) })
	}
	for range workers {
		working.Go(func() { p.work(ctx) })
	}
	end := time.Now()
	for i, phase := range phases {
		p.phase.Store(int32(i))
		if phase.Begin != nil {
			phase.Begin()
		}
		end = end.Add(phase.Length)
		pause(ctx, time.Until(end))
	}
	cancel()
	arriving.Wait()
	close(p.line)
	working.Wait()
	for i, phase := range phases {
		for j := range streams {
			r := &p.results[i][j]
			r.Elapsed = phase.Length
			slices.Sort(r.Latencies)
		}
	}
	return p.results
}

type pool struct {
	streams []Stream
	line    chan arrival // as long as all arrivals: none ever waits to stand in it
	phase   atomic.Int32 // that of the calls which arrive now

	mu      sync.Mutex // guards results
	results [][]Result // by phase and stream
}

// arrive adds a stream's calls to the line until ctx ends.
func (p *pool) arrive(ctx context.Context, stream int) {
	apart := time.Second / time.Duration(p.streams[stream].Rate)
	for due := time.Now(); ; due = due.Add(apart) {
		pause(ctx, time.Until(due))
		if ctx.Err() != nil {
			return
		}
		select {
		case p.line <- arrival{stream, int(p.phase.Load()), time.Now()}:
		default:
			return
		}
	}
}

// work makes calls until the line is empty and closed. When ctx ends, the call
// at hand is broken off and the others are no longer made.
func (p *pool) work(ctx context.Context) {
	callers := make([]*Caller, len(p.streams))
	for i := range p.streams {
		callers[i] = NewCaller(p.streams[i].Target)
		defer callers[i].Close()
	}
	for a := range p.line {
		err := ctx.Err()
		if err == nil {
			stop := callers[a.stream].breakOff(ctx)
			err = callers[a.stream].Call()
			stop()
		}
		p.ended(a, err)
	}
}

func (p *pool) ended(a arrival, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := &p.results[a.phase][a.stream]
	latency := time.Since(a.at)
	r.add(latency, err)
	if err != nil {
		r.Latencies = append(r.Latencies, latency)
	}
}
