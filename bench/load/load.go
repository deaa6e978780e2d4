// Package load makes calls and measures them.
//
// A closed loop (Closed) makes each connection call again as soon as its
// answer is there: it shows throughput, and keeps a proxy busy while its CPU
// is measured. Its latencies say little, since a slow answer delays the calls
// that would have shown it.
//
// An open loop (Open) makes calls at fixed instants, whatever the answers do.
// A call that is due while its connection still waits for the one before is
// late, and its latency counts from the instant at which it was due. A call
// that is due on an idle connection counts from its first byte: timers wake
// up to a millisecond late, and that is the generator's own lateness.
//
// Callers are cheap (no allocation and no second goroutine for a call), since
// they share the machine with what they measure.
package load

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Result is what a loop saw.
type Result struct {
	Calls     int             // answered as the target says
	Failed    int             // all others, those included that an open loop could not make in time
	Elapsed   time.Duration   // from the first call to the end of the last
	Latencies []time.Duration // of the calls that were answered, in ascending order
	Err       error           // why a call failed, of one of them
}

// Percentile returns the latency that a share q, 0 to 1, of the calls did not
// exceed; 0 without calls.
func (r *Result) Percentile(q float64) time.Duration {
	if len(r.Latencies) == 0 {
		return 0
	}
	return r.Latencies[min(int(q*float64(len(r.Latencies))), len(r.Latencies)-1)]
}

// Rate returns the calls answered a second.
func (r *Result) Rate() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Calls) / r.Elapsed.Seconds()
}

// add counts one call.
func (r *Result) add(latency time.Duration, err error) {
	if err != nil {
		r.Failed++
		r.Err = err
		return
	}
	r.Calls++
	r.Latencies = append(r.Latencies, latency)
}

// Closed keeps conns connections calling for d.
func Closed(ctx context.Context, t *Target, conns int, d time.Duration) Result {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return each(conns, func(_ int, r *Result) {
		c := NewCaller(t)
		defer c.Close()
		for ctx.Err() == nil {
			began := time.Now()
			err := c.Call()
			r.add(time.Since(began), err)
			if err != nil {
				pause(ctx, time.Millisecond)
			}
		}
	})
}

// Open calls rate times a second for d, over conns connections that take
// turns. Calls that could not be made within twice d have failed. The result is
// that of each of some windows of equal length, in the order of time; Sum puts
// them together.
func Open(ctx context.Context, t *Target, conns, rate int, d time.Duration, windows int) []Result {
	ctx, cancel := context.WithTimeout(ctx, 2*d)
	defer cancel()
	apart := time.Second / time.Duration(rate)
	calls := int(d / apart)
	start := time.Now().Add(10 * time.Millisecond)
	seen := make([][]Result, windows)
	for i := range seen {
		seen[i] = make([]Result, conns)
	}
	each(conns, func(i int, _ *Result) {
		c := NewCaller(t)
		defer c.Close()
		if err := c.Connect(); err != nil {
			seen[0][i].Err = err
		}
		for n := i; n < calls; n += conns {
			due := start.Add(time.Duration(n) * apart)
			if wait := time.Until(due); wait > 0 {
				pause(ctx, wait)
				due = time.Now()
			}
			r := &seen[n*windows/calls][i]
			if ctx.Err() != nil {
				r.Failed++
				continue
			}
			err := c.Call()
			r.add(time.Since(due), err)
		}
	})
	results := make([]Result, windows)
	for i := range seen {
		results[i] = Sum(seen[i]...)
	}
	return results
}

// each runs a loop for each connection and puts their results together.
func each(conns int, loop func(i int, r *Result)) Result {
	results := make([]Result, conns)
	began := time.Now()
	var loops sync.WaitGroup
	for i := range conns {
		loops.Go(func() { loop(i, &results[i]) })
	}
	loops.Wait()
	sum := Sum(results...)
	sum.Elapsed = time.Since(began)
	return sum
}

// Sum puts the results of loops that ran one after another together.
func Sum(results ...Result) (sum Result) {
	for i := range results {
		r := &results[i]
		sum.Calls += r.Calls
		sum.Failed += r.Failed
		sum.Elapsed += r.Elapsed
		sum.Latencies = append(sum.Latencies, r.Latencies...)
		if r.Err != nil {
			sum.Err = r.Err
		}
	}
	slices.Sort(sum.Latencies)
	return sum
}

// pause waits for d, or for the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
