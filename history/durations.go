package history

import (
	"math"
	"math/bits"
	"time"
)

// The buckets of [Durations]; see the package's documentation.
const (
	firstOctave = 14
	lastOctave  = 37
	partsBits   = 3
	parts       = 1 << partsBits

	// Buckets is the number of buckets, with one below and one above.
	Buckets = (lastOctave-firstOctave)*parts + 2
)

// Durations are the counts of a histogram. Cumulative ones may wrap: only
// differences are used.
type Durations [Buckets]uint32

// Bucket returns the bucket of a duration.
func Bucket(d time.Duration) int {
	switch {
	case d < 1<<firstOctave:
		return 0
	case d >= 1<<lastOctave:
		return Buckets - 1
	}
	octave := bits.Len64(uint64(d)) - 1
	part := int(d>>(octave-partsBits)) - parts
	return 1 + (octave-firstOctave)*parts + part
}

// middle returns the duration that stands for a bucket.
func middle(bucket int) time.Duration {
	switch bucket {
	case 0:
		return 1 << (firstOctave - 1)
	case Buckets - 1:
		return 1 << lastOctave
	}
	octave := firstOctave + (bucket-1)/parts
	part := (bucket - 1) % parts
	width := time.Duration(1) << (octave - partsBits)
	return time.Duration(parts+part)*width + width/2
}

// Total returns how many durations were counted.
func (d *Durations) Total() uint64 {
	var n uint64
	for _, c := range d {
		n += uint64(c)
	}
	return n
}

// Quantile returns the quantile q in (0, 1] by nearest rank: the smallest
// duration that at least that share did not exceed; 0 without any.
func (d *Durations) Quantile(q float64) time.Duration {
	n := d.Total()
	if n == 0 {
		return 0
	}
	rank := min(max(uint64(math.Ceil(q*float64(n))), 1), n)
	for b, c := range d {
		if uint64(c) >= rank {
			return middle(b)
		}
		rank -= uint64(c)
	}
	return middle(Buckets - 1)
}

// add adds what was counted between two cumulative histograms.
func (d *Durations) add(before, now *Durations) {
	for b := range d {
		d[b] += now[b] - before[b]
	}
}
