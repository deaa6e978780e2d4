package stale

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// What a write makes invalid does not come back with an answer that was asked
// for before it.
func TestTicketOfBeforeAWrite(t *testing.T) {
	bubble(t, func(r *rig) {
		before := r.shelf.Ask("/x")
		r.shelf.Drop("/x")
		r.keep(given{ticket: before, body: "old"})
		r.want("-")
		if n := r.store.Snapshot().Skips["invalidated"]; n != 1 {
			r.Errorf("%d skips for it, want 1", n)
		}
		r.keep(given{body: "new"})
		r.want("new")
	})
}

// An answer that took longer than the next one does not replace it; a renewed
// one of the same moment does.
func TestOlderAnswerComesLater(t *testing.T) {
	bubble(t, func(r *rig) {
		r.keep(given{body: "new"})
		r.keep(given{body: "old", header: fields("Age: 10")})
		r.want("new")
		r.keep(given{body: "newer"})
		r.want("newer")
	})
}

// Answers that vary by other headers than before leave none of the earlier
// copies.
func TestOtherVary(t *testing.T) {
	bubble(t, func(r *rig) {
		r.keep(given{body: "a1", req: fields("A: 1"), header: fields("Vary: A")})
		r.keep(given{body: "a2", req: fields("A: 2"), header: fields("Vary: A")})
		r.want("a1", "A: 1")
		r.want("a2", "A: 2")
		r.keep(given{body: "b", req: fields("A: 1", "B: 1"), header: fields("Vary: B")})
		r.want("b", "A: 2", "B: 1")
		r.want("-", "A: 2")
		if n := r.store.Snapshot().Entries; n != 1 {
			r.Errorf("%d entries, want 1", n)
		}
	})
}

// Gone means gone, for every variant; other refusals say nothing of it.
func TestGone(t *testing.T) {
	for status, want := range map[int]string{404: "-", 410: "-", 401: "body", 403: "body", 405: "body", 429: "body", 301: "body"} {
		bubble(t, func(r *rig) {
			r.keep(given{body: "body", header: fields("Vary: A")})
			r.keep(given{status: status, body: "no", req: fields("A: 1")})
			r.want(want)
		})
	}
}

// A 304 makes the copy young that it confirms, and no other.
func TestRenewal(t *testing.T) {
	for _, c := range []struct {
		name     string
		req, not http.Header
		renewed  bool
	}{
		{"same tag", fields(`If-None-Match: "1"`), fields(`Etag: "1"`), true},
		{"other tag", fields(`If-None-Match: "2"`), fields(`Etag: "2"`), false},
		{"only tag asked for", fields(`If-None-Match: "1"`), fields(), true},
		{"one of the tags asked for", fields(`If-None-Match: "1", "2"`), fields(), false},
		{"weak tag", fields(`If-None-Match: W/"1"`), fields(`Etag: W/"1"`), true},
		{"other weak tag", fields(`If-None-Match: W/"1"`), fields(`Etag: W/"2"`), false},
		{"same date", fields("If-Modified-Since: now"), fields("Last-Modified: now"), true},
		{"other date", fields("If-Modified-Since: then"), fields("Last-Modified: then"), false},
		{"no validator", fields("If-Modified-Since: now"), fields(), false},
		{"answers one caller", fields(`If-None-Match: "1"`), fields(`Etag: "1"`, "Set-Cookie: a=b"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				r.keep(given{body: "body", header: fields(`Etag: "1"`, "Last-Modified: now", "Content-Type: a/b", "X-A: 1")})
				time.Sleep(time.Minute)
				c.not.Set("X-A", "2")
				c.not.Set("Content-Type", "c/d")
				r.keep(given{status: 304, req: c.req, header: c.not})
				got := r.shelf.Find("/x", asked(nil), time.Now(), time.Hour, nil)
				want := map[bool]string{true: "0s 2 a/b body", false: "1m0s 1 a/b body"}[c.renewed]
				if s := fmt.Sprint(got.Age(time.Now()), " ", got.header.Get("X-A"), " ", got.header.Get("Content-Type"), " ", string(got.body)); s != want {
					r.Errorf("got %s, want %s", s, want)
				}
			})
		})
	}
}

// A 304 changes what the copy says of its use where it speaks of it, and leaves
// the rest.
func TestRenewalOfDirectives(t *testing.T) {
	for _, c := range []struct {
		kept, renewed string
		last          time.Duration // after the 304; negative = gone
	}{
		{"max-age=10, must-revalidate", "", 10*time.Second - 1},
		{"max-age=10, stale-if-error=20", "", 30 * time.Second},
		{"max-age=10, must-revalidate", "max-age=20, must-revalidate", 20*time.Second - 1},
		{"max-age=10", "max-age=10, must-revalidate", 10*time.Second - 1},
		{"max-age=10", "no-store", -1},
		{"max-age=10", "no-cache", -1},
		{"max-age=10", "private", -1},
	} {
		bubble(t, func(r *rig) {
			r.keep(given{body: "body", header: fields(`Etag: "1"`, "Cache-Control: "+c.kept)})
			time.Sleep(5 * time.Second)
			h := fields(`Etag: "1"`)
			if c.renewed != "" {
				h.Set("Cache-Control", c.renewed)
			}
			r.keep(given{status: 304, header: h})
			if c.last >= 0 {
				time.Sleep(c.last)
				r.want("body")
				time.Sleep(time.Nanosecond)
			}
			r.want("-")
		})
	}
}

// What is evicted leaves the index, and a copy that came again stays in it.
func TestEvictionLeavesNothing(t *testing.T) {
	bubble(t, func(r *rig) {
		for i := range 500 {
			r.keep(given{
				ticket: r.shelf.Ask(fmt.Sprint("/", i%120)), body: strings.Repeat("x", 20<<10),
				req: fields(fmt.Sprint("A: ", i)), header: fields("Vary: A"),
			})
		}
		synctest.Wait()
		indexed := 0
		for i := range r.shelf.stripes {
			for _, v := range r.shelf.stripes[i].targets {
				if indexed += len(v.keys); len(v.keys) == 0 {
					r.Error("a target without copies is left")
				}
			}
		}
		s := r.store.Snapshot()
		if indexed != s.Entries || s.Evictions == 0 || s.Bytes > 1<<20 {
			r.Errorf("%d copies in the index; %+v", indexed, s)
		}
	})
}

// Without a fallback that shows copies, none is kept; with one again, the shelf
// begins anew. A closed shelf keeps nothing.
func TestWantedOnly(t *testing.T) {
	bubble(t, func(r *rig) {
		r.keep(given{body: "1"})
		r.shelf.Want(false)
		r.want("-")
		r.keep(given{body: "2"})
		r.shelf.Want(true)
		r.want("-")
		late := r.shelf.Ask("/x")
		r.keep(given{body: "3"})
		r.want("3")
		r.shelf.Close()
		r.keep(given{ticket: late, body: "4"})
		r.want("-")
		if s := r.store.Snapshot(); s.Entries != 0 || s.Bytes != 0 {
			r.Errorf("left over: %+v", s)
		}
	})
}

// Many goroutines use one shelf; none sees another's answer, and what was
// dropped last is not there.
func TestConcurrentUse(t *testing.T) {
	s := NewStore(64<<10, 4<<10)
	shelf := s.Shelf("a", "b")
	shelf.Want(true)
	r := &rig{T: t, store: s, shelf: shelf}
	var wait sync.WaitGroup
	for g := range 8 {
		wait.Go(func() {
			for i := range 300 {
				target, a := fmt.Sprint("/", (g+i)%20), fmt.Sprint("A: ", i%3)
				switch i % 5 {
				case 0, 1:
					r.keep(given{ticket: shelf.Ask(target), req: fields(a), header: fields("Vary: A"), body: target + a})
				case 2:
					shelf.Drop(target)
				case 3:
					s.Resize(32<<10+int64(i)<<6, 4<<10)
					s.Snapshot()
					shelf.Snapshot(time.Now())
				default:
					if got := r.find(target, fields(a)); got != "-" && got != target+a {
						t.Errorf("asked for %s, got %s", target+a, got)
					}
				}
			}
		})
	}
	wait.Wait()
	s.Close()
}
