package proxy

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The store never holds more bytes than it may, and tells what it dropped.
func TestStoreIsBounded(t *testing.T) {
	bubble(t, keepsCopies, func(r *rig) {
		r.store.Resize(100<<10, 64<<10)
		body := strings.Repeat("x", 10<<10)
		r.up.will(good(body))
		for i := range 50 {
			r.get(fmt.Sprint("/", i))
			synctest.Wait()
			if s := r.store.Snapshot(); s.Bytes > 100<<10 {
				r.Fatalf("%d bytes, at most %d are allowed", s.Bytes, 100<<10)
			}
		}
		s := r.store.Snapshot()
		if s.Stores != 50 || s.Evictions == 0 || s.Bytes < 50<<10 {
			r.Errorf("%+v, want 50 stores, evictions, and half of the bytes in use", s)
		}
		r.up.will(reply{fails: errReset})
		kept := 0
		for i := range 50 {
			if got := r.get(fmt.Sprint("/", i)); got.status == 200 && got.body == body {
				kept++
			}
		}
		if kept < 8 || kept > 9 || kept != r.store.Snapshot().Entries {
			r.Errorf("%d copies of 10 KiB within 100 KiB, %d entries", kept, r.store.Snapshot().Entries)
		}
		r.store.Resize(0, 0)
		synctest.Wait()
		if s := r.store.Snapshot(); s.Bytes > 1 {
			r.Errorf("%d bytes are left in a store of none", s.Bytes)
		}
	})
}

// What the headers take up counts.
func TestStoreWeighsHeaders(t *testing.T) {
	bubble(t, keepsCopies, func(r *rig) {
		up := good("AB")
		up.header.Set("X-Long", strings.Repeat("x", 30<<10))
		r.up.will(up)
		r.get("/x")
		if s := r.store.Snapshot(); s.Bytes < 30<<10 {
			r.Errorf("%d bytes for a header of %d", s.Bytes, 30<<10)
		}
	})
}

// A lowered max_object_bytes holds from the next answer on.
func TestStoreObjectBound(t *testing.T) {
	bubble(t, keepsCopies, func(r *rig) {
		r.store.Resize(1<<20, 3)
		r.up.will(good("1234"), good("123"), reply{fails: errReset})
		r.get("/large")
		r.get("/small")
		if got := r.get("/large"); got.status != 502 {
			r.Errorf("got %d %q, want none", got.status, got.body)
		}
		r.get("/small").wantStale(t, "123", ReasonReset, 0)
	})
}

// An answer that varies by other headers than the one before makes the older
// copies unreachable: nobody knows which of them still holds.
func TestStoreForgetsOtherVary(t *testing.T) {
	bubble(t, keepsCopies, func(r *rig) {
		vary := func(names, body string) reply {
			up := good(body)
			up.header.Set("Vary", names)
			return up
		}
		r.up.will(vary("A", "1"), vary("B", "2"), reply{fails: errReset})
		r.call(caller{header: http.Header{"A": {"1"}}})
		r.call(caller{header: http.Header{"A": {"2"}}})
		r.call(caller{header: http.Header{"A": {"1"}}}).wantStale(t, "2", ReasonReset, 0)
	})
}

// Calls of one target keep and read copies at the same time.
func TestStaleConcurrent(t *testing.T) {
	bubble(t, keepsCopies, func(r *rig) {
		r.up.choose = func(n int, _ *request) reply {
			if n%2 == 0 {
				return good("AB")
			}
			return reply{fails: errReset, after: time.Duration(n%7) * time.Millisecond}
		}
		r.get("/x")
		for range 100 {
			r.start(caller{target: "/x"})
		}
		for _, a := range r.made {
			if a.wait(); a.status != 200 || a.body != "AB" {
				r.Errorf("got %d %q", a.status, a.body)
			}
		}
	})
}
