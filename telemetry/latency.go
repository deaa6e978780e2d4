package telemetry

import (
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

// The buckets of a latency window are logarithmic: each octave from 2^10 ns
// (1 µs) to 2^37 ns (137 s) is cut into 16 equal parts. A quantile is given as
// the middle of its bucket, which is at most 1/32 (3.2 %) off; anything shorter
// than 1 µs shows as 0.5 µs, anything above 137 s as 137 s.
const (
	firstOctave  = 10
	lastOctave   = 37
	partsBits    = 4
	parts        = 1 << partsBits
	bucketCount  = (lastOctave-firstOctave)*parts + 2 // and one below, one above
	latencySlots = 7
	slotSpan     = 10 * time.Second
)

// latency holds the durations of the last minute: the present slot of ten
// seconds and the six before it, so between 60 and 70 s. The zero value is
// empty. It is safe for concurrent use; recording takes no lock and does not
// allocate, but for the first record of each slot, which clears it.
//
// Its clock is the time since a fixed moment of the caller's choice, never
// negative.
type latency struct {
	clearing sync.Mutex // held by whoever gives a slot to a new turn
	slots    [latencySlots]latencySlot
}

// latencySlot holds the durations of ten seconds.
type latencySlot struct {
	turn   atomic.Int64 // 1 + the number of the ten seconds it holds; 0 = never used
	counts [bucketCount]atomic.Uint32
}

// record adds a call that ended at now and took d.
func (l *latency) record(now, d time.Duration) {
	turn := turnAt(now)
	s := &l.slots[turn%latencySlots]
	if s.turn.Load() < turn {
		l.clear(s, turn)
	}
	s.counts[bucketOf(d)].Add(1)
}

// clear empties a slot for a new turn. A record of the old turn that is under
// way on another core may still land in the new one: it is counted a little
// too late, and none is lost.
func (l *latency) clear(s *latencySlot, turn int64) {
	l.clearing.Lock()
	defer l.clearing.Unlock()
	if s.turn.Load() >= turn {
		return
	}
	for i := range s.counts {
		s.counts[i].Store(0)
	}
	s.turn.Store(turn)
}

// quantiles returns the given quantiles, each in (0, 1], of the calls recorded
// in the last minute before now, by nearest rank: the smallest duration that at
// least that share of the calls did not exceed. It returns false if there were
// no calls.
func (l *latency) quantiles(now time.Duration, qs ...float64) ([]time.Duration, bool) {
	var counts [bucketCount]uint64
	var n uint64
	oldest := turnAt(now) - latencySlots + 1
	for i := range l.slots {
		s := &l.slots[i]
		if s.turn.Load() < oldest {
			continue
		}
		for b := range s.counts {
			c := uint64(s.counts[b].Load())
			counts[b] += c
			n += c
		}
	}
	if n == 0 {
		return nil, false
	}
	values := make([]time.Duration, len(qs))
	for i, q := range qs {
		values[i] = valueAt(&counts, rank(q, n))
	}
	return values, true
}

// rank returns the nearest rank of a quantile among n values, 1 to n.
func rank(q float64, n uint64) uint64 {
	return min(max(uint64(math.Ceil(q*float64(n))), 1), n)
}

// valueAt returns the middle of the bucket in which the value of a rank lies.
func valueAt(counts *[bucketCount]uint64, rank uint64) time.Duration {
	for b, c := range counts {
		if c >= rank {
			return middleOf(b)
		}
		rank -= c
	}
	return middleOf(bucketCount - 1)
}

// turnAt returns the turn of a moment; the first is 1.
func turnAt(now time.Duration) int64 { return 1 + int64(now/slotSpan) }

// bucketOf returns the bucket of a duration.
func bucketOf(d time.Duration) int {
	switch {
	case d < 1<<firstOctave:
		return 0
	case d >= 1<<lastOctave:
		return bucketCount - 1
	}
	octave := bits.Len64(uint64(d)) - 1
	part := int(d>>(octave-partsBits)) - parts
	return 1 + (octave-firstOctave)*parts + part
}

// middleOf returns the duration that stands for a bucket.
func middleOf(bucket int) time.Duration {
	switch bucket {
	case 0:
		return 1 << (firstOctave - 1)
	case bucketCount - 1:
		return 1 << lastOctave
	}
	octave := firstOctave + (bucket-1)/parts
	part := (bucket - 1) % parts
	width := time.Duration(1) << (octave - partsBits)
	return time.Duration(parts+part)*width + width/2
}
