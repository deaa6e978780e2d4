package e2e

import (
	"slices"
	"sync"
	"time"
)

// together makes n calls at the same moment.
func together(n int, call func(i int) result) []result {
	results := make([]result, n)
	begin := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			<-begin
			results[i] = call(i)
		})
	}
	close(begin)
	all.Wait()
	return results
}

// load is an open loop of calls: each begins at its time, whether or not
// earlier ones have ended.
type load struct {
	ends  chan struct{}
	once  sync.Once
	done  chan struct{}
	mu    sync.Mutex // guards everything below
	calls []result
}

// mostInFlight bounds the calls of a load that have not ended.
const mostInFlight = 2000

// startLoad makes calls at a rate per second for a time.
func startLoad(rate int, length time.Duration, call func(i int) result) *load {
	l := &load{ends: make(chan struct{}), done: make(chan struct{})}
	places := make(chan struct{}, mostInFlight)
	go func() {
		defer close(l.done)
		var all sync.WaitGroup
		defer all.Wait()
		begin := time.Now()
		for i := range int(length.Seconds() * float64(rate)) {
			select {
			case <-l.ends:
				return
			case <-time.After(time.Until(begin.Add(time.Duration(i) * time.Second / time.Duration(rate)))):
			}
			places <- struct{}{}
			all.Go(func() {
				r := call(i)
				<-places
				l.mu.Lock()
				defer l.mu.Unlock()
				l.calls = append(l.calls, r)
			})
		}
	}()
	return l
}

// stop begins no more calls.
func (l *load) stop() { l.once.Do(func() { close(l.ends) }) }

// wait returns the results of all calls, in the order in which they were sent,
// once the last has ended.
func (l *load) wait() []result {
	<-l.done
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.SortFunc(l.calls, func(a, b result) int { return a.sent.Compare(b.sent) })
	return l.calls
}

// only returns the results that a condition holds for.
func only(all []result, holds func(result) bool) []result {
	return slices.DeleteFunc(slices.Clone(all), func(r result) bool { return !holds(r) })
}

// withStatus returns the results with a status.
func withStatus(all []result, status int) []result {
	return only(all, func(r result) bool { return r.status == status })
}

// quantile returns the time that a part q of the calls took at most.
func quantile(all []result, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	times := make([]time.Duration, len(all))
	for i, r := range all {
		times[i] = r.took
	}
	slices.Sort(times)
	return times[int(q*float64(len(times)-1))]
}
