package stale

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// flood keeps n answers of a size, each of a target of its own.
func (r *rig) flood(shelf *Shelf, from, n, size int) {
	for i := range n {
		r.keep(given{ticket: shelf.Ask(fmt.Sprint("/", from+i)), body: strings.Repeat("x", size)})
		synctest.Wait() // evictions are done in the background
	}
}

// left counts the copies of the first n targets.
func (r *rig) left(shelf *Shelf, n int) (left int) {
	for i := range n {
		if shelf.lookup(fmt.Sprint("/", i), asked(nil)) != nil {
			left++
		}
	}
	return left
}

// One dependency's flood takes what others leave free, and never their share;
// what it borrowed it gives back.
func TestFairShares(t *testing.T) {
	bubble(t, func(r *rig) {
		other := r.store.Shelf("catalog", "http://other.internal")
		other.Want(true)
		r.flood(r.shelf, 0, 200, 10<<10)
		if s := r.shelf.weight(); s < 900<<10 {
			r.Errorf("%d bytes are used of 1 MiB that nobody else needs", s)
		}
		share := r.shelf.Snapshot(time.Now()).Share
		if share < 500<<10 || share > 512<<10 {
			r.Errorf("the share is %d bytes, want about half", share)
		}
		r.flood(other, 0, 40, 10<<10) // within its share
		r.flood(r.shelf, 1000, 300, 10<<10)
		if n := r.left(other, 40); n != 40 {
			r.Errorf("%d of 40 copies are left after the other's flood", n)
		}
		if s := r.store.Snapshot(); s.Bytes > 1<<20 || s.Bytes < 900<<10 {
			r.Errorf("%d bytes of 1 MiB", s.Bytes)
		}
		r.flood(other, 1000, 300, 10<<10)
		for _, shelf := range []*Shelf{r.shelf, other} {
			if s := shelf.weight(); s < share-11<<10 || s > share+11<<10 {
				r.Errorf("%s uses %d bytes after both were flooded, its share is %d", shelf.name, s, share)
			}
		}
		// A dependency without a stale fallback has no share.
		other.Want(false)
		if got := r.shelf.Snapshot(time.Now()).Share; got != 1<<20 {
			r.Errorf("alone, the share is %d", got)
		}
	})
}

// The store never holds more than it may, whatever its shelves do.
func TestBoundHolds(t *testing.T) {
	bubble(t, func(r *rig) {
		shelves := []*Shelf{r.shelf}
		for i := range 6 {
			s := r.store.Shelf(fmt.Sprint(i), "u")
			s.Want(true)
			shelves = append(shelves, s)
		}
		for i := range 700 {
			r.flood(shelves[(i*i+i/50)%len(shelves)], i, 1, 1<<(i%16))
			if s := r.store.Snapshot(); s.Bytes > 1<<20 {
				r.Fatalf("%d bytes after %d answers", s.Bytes, i+1)
			}
		}
		r.store.Resize(100<<10, 64<<10)
		synctest.Wait()
		if s := r.store.Snapshot(); s.Bytes > 100<<10 {
			r.Errorf("%d bytes of 100 KiB", s.Bytes)
		}
	})
}

// The oldest copy is told, at most a second late.
func TestOldest(t *testing.T) {
	bubble(t, func(r *rig) {
		if s := r.shelf.Snapshot(time.Now()); s.Oldest != 0 || s.Entries != 0 {
			r.Errorf("an empty shelf: %+v", s)
		}
		r.keep(given{ticket: r.shelf.Ask("/a"), body: "a", header: fields("Age: 100")})
		r.keep(given{ticket: r.shelf.Ask("/b"), body: "b"})
		time.Sleep(10 * time.Second)
		if s := r.shelf.Snapshot(time.Now()); s.Oldest != 110*time.Second || s.Entries != 2 || s.Bytes == 0 {
			r.Errorf("%+v, want 110s for 2 entries", s)
		}
		r.shelf.Drop("/a")
		time.Sleep(time.Second)
		if s := r.shelf.Snapshot(time.Now()); s.Oldest != 11*time.Second {
			r.Errorf("%v, want 11s", s.Oldest)
		}
	})
}
