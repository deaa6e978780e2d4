package history

import (
	"context"
	"sync"
	"time"
)

// Source gives a reading of each running dependency. Only the recorder calls
// it, from one goroutine.
type Source func() []*Reading

// Recorder keeps the last quarter of an hour. It is safe for concurrent use.
// Build it with [New] and let it run with [Recorder.Run].
type Recorder struct {
	source Source

	mu     sync.Mutex // guards everything below
	last   time.Time  // the last reading
	ended  time.Time  // the last step's end
	n      int        // readings taken
	tracks map[string]*track
}

// New returns a recorder whose first step begins now.
func New(now time.Time, source Source) *Recorder {
	return &Recorder{source: source, last: now, ended: now, tracks: map[string]*track{}}
}

// Run takes a reading once a second, until ctx ends. Run it once.
func (r *Recorder) Run(ctx context.Context) {
	tick := time.NewTicker(readEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			r.read(time.Now())
		}
	}
}

// read takes one reading.
func (r *Recorder) read(now time.Time) {
	readings := r.source()
	r.mu.Lock()
	defer r.mu.Unlock()
	turn := r.n / spanReadings
	tracks := make(map[string]*track, len(readings))
	for _, reading := range readings {
		t := r.tracks[reading.Name]
		if t == nil {
			t = &track{}
		}
		if r.n%spanReadings == 0 {
			t.spans[turn%spanCount] = span{}
		}
		t.see(reading, now.Sub(r.last), turn)
		tracks[reading.Name] = t
	}
	r.tracks, r.last = tracks, now
	if r.n++; r.n%stepReadings != 0 {
		return
	}
	r.ended = now
	for _, t := range r.tracks {
		t.endStep(r.n/stepReadings - 1)
	}
}

// kept returns the number of the oldest step that is kept, and of the first
// that has not ended. The caller holds mu.
func (r *Recorder) kept() (first, end int) {
	end = r.n / stepReadings
	return max(0, end-Steps), end
}
