package e2e

import (
	"sync"
	"testing"
	"time"
)

const (
	// tolerance is by how much a time may miss what a case says.
	tolerance = 100 * time.Millisecond
	// refusal is how long a refusal may take.
	refusal = 50 * time.Millisecond
	// tick is how often lateness is measured.
	tick = 10 * time.Millisecond
)

// poll asks every few milliseconds until something holds; false if it never
// did in the given time. It asks at least once.
func poll(within time.Duration, holds func() bool) bool {
	for deadline := time.Now().Add(within); ; time.Sleep(3 * time.Millisecond) {
		if holds() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}

// noise is how much a time measured since a moment may be too long because of
// this machine: a single answer also tells how busy it is.
func noise(since time.Time) time.Duration { return slack + lateness(since) }

// wantTook fails the test unless a time that has just passed is the wanted one.
func wantTook(t *testing.T, what string, got, want time.Duration) {
	t.Helper()
	most := want + tolerance + noise(time.Now().Add(-got-tolerance))
	if got < want-tolerance || got > most {
		t.Errorf("%s took %s, want %s ± %s, on this machine up to %s", what, round(got), want, tolerance, round(most))
	}
}

// wantWithin fails the test if a time that has just passed is too long.
func wantWithin(t *testing.T, what string, got, want time.Duration) {
	t.Helper()
	if most := want + noise(time.Now().Add(-got-tolerance)); got > most {
		t.Errorf("%s took %s, want at most %s, on this machine %s", what, round(got), want, round(most))
	}
}

// wantRefusedFast fails the test if the median of refusals took too long.
func wantRefusedFast(t *testing.T, all []result) {
	t.Helper()
	if len(all) == 0 {
		t.Errorf("nothing was refused")
		return
	}
	wantWithin(t, "the median refusal", quantile(all, 0.5), refusal)
}

func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

var latenesses struct {
	mu    sync.Mutex // guards everything below
	spans []span
}

// span is a wait that ended late.
type span struct {
	at time.Time
	by time.Duration
}

// watchLateness measures how late this machine wakes a sleeper, until stop is
// called.
func watchLateness() (stop func()) {
	ends := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		for {
			asleep := time.Now()
			select {
			case <-ends:
				return
			case <-time.After(tick):
			}
			if by := time.Since(asleep) - tick; by > tick {
				latenesses.mu.Lock()
				latenesses.spans = append(latenesses.spans, span{time.Now(), by})
				latenesses.mu.Unlock()
			}
		}
	})
	return func() {
		close(ends)
		done.Wait()
	}
}

// lateness returns the longest time by which this machine woke a sleeper too
// late since a moment: what a busy machine adds to every time measured on it.
func lateness(since time.Time) time.Duration {
	latenesses.mu.Lock()
	defer latenesses.mu.Unlock()
	var most time.Duration
	for _, s := range latenesses.spans {
		if s.at.After(since) {
			most = max(most, s.by)
		}
	}
	return most
}
