package main

import (
	"slices"
	"testing"
)

// row is one piece of work, done by several libraries.
type row struct {
	name    string
	about   string // what differs between the libraries, a sentence
	entries []entry
}

// entry is one library at that work.
type entry struct {
	who    string
	clocks int  // how often the clock is read in one operation
	ours   bool // the others are measured against it
	aside  bool // not the same work: shown, and not compared
	// make returns the operation on a new instance. It is called by many
	// goroutines at once, each of which counts its own calls, and panics if the
	// instance decides otherwise than the row says.
	make func() func(i int)
}

func rows() []row { return slices.Concat(breakerRows(), bulkheadRows(), pipelineRows()) }

// bench runs the entry as an ordinary benchmark.
func (e entry) bench(b *testing.B) {
	do := e.make()
	for i := range warmUp {
		do(i)
	}
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			do(i)
		}
	})
}

// warmUp is a number of operations that fills every window.
const warmUp = 100

// must panics if an operation went another way than its row says.
func must(right bool) {
	if !right {
		panic("micro: the library decided otherwise than the row says")
	}
}
