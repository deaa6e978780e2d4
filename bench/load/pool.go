package load

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Stream is calls to one target at a steady rate.
type Stream struct {
	Target *Target
	Rate   int // calls a second
}

// arrival is one call that waits for a worker.
type arrival struct {
	stream int
	at     time.Time
}

// Pool is an app with a fixed number of workers: calls arrive for d, stand in
// one line and are made by whichever worker is free. There is a result for
// each stream. Latency counts from arrival, for failed calls too; a call that
// no worker has finished at the end has failed, and counts with the time that
// it has waited, which is less than it would have taken.
func Pool(ctx context.Context, workers int, d time.Duration, streams ...Stream) []Result {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	p := &pool{streams: streams, results: make([]Result, len(streams))}
	total := 0
	for _, s := range streams {
		total += int(d.Seconds()*float64(s.Rate)) + 1
	}
	p.line = make(chan arrival, total)

	var arriving, working sync.WaitGroup
	began := time.Now()
	for i := range streams {
		arriving.Go(func() { p.arrive(ctx, i) })
	}
	for range workers {
		working.Go(func() { p.work(ctx) })
	}
	arriving.Wait()
	close(p.line)
	working.Wait()
	for i := range p.results {
		p.results[i].Elapsed = time.Since(began)
		slices.Sort(p.results[i].Latencies)
	}
	return p.results
}

type pool struct {
	streams []Stream
	line    chan arrival // as long as all arrivals: none ever waits to stand in it

	mu      sync.Mutex // guards results
	results []Result
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
		case p.line <- arrival{stream, time.Now()}:
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
	r := &p.results[a.stream]
	latency := time.Since(a.at)
	r.add(latency, err)
	if err != nil {
		r.Latencies = append(r.Latencies, latency)
	}
}
