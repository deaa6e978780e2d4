package proxy

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// The store never holds more bytes than it may, and tells what it dropped.
func TestStoreIsBounded(t *testing.T) {
	bubble(t, stale, func(r *rig) {
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
	bubble(t, stale, func(r *rig) {
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
	bubble(t, stale, func(r *rig) {
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
	bubble(t, stale, func(r *rig) {
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

// Values of the headers that vary cannot be mistaken for others.
func TestVariantKeys(t *testing.T) {
	v := &variants{names: []string{"A", "B", "Host"}}
	seen := map[string]http.Header{}
	for _, h := range []http.Header{
		{}, {"A": {""}}, {"B": {""}}, {"A": {"x"}}, {"B": {"x"}}, {"A": {"x"}, "B": {"y"}}, {"A": {"x", "y"}}, {"A": {"xy"}},
	} {
		key := v.variant("primary", &http.Request{Header: h})
		if other, ok := seen[key]; ok {
			t.Errorf("%v and %v have one key", h, other)
		}
		seen[key] = h
	}
	if v.variant("", &http.Request{Host: "a"}) == v.variant("", &http.Request{Host: "b"}) {
		t.Error("two hosts have one key")
	}
}

// Many goroutines use one store; none sees another's answer.
func TestStoreConcurrent(t *testing.T) {
	s := NewStore(64<<10, 4<<10)
	defer s.Close()
	var wait sync.WaitGroup
	for g := range 8 {
		wait.Go(func() {
			for i := range 300 {
				key := fmt.Sprint((g + i) % 20)
				req := &http.Request{Header: http.Header{"A": {fmt.Sprint(i % 3)}}}
				switch i % 5 {
				case 0:
					s.put(key, req, []string{"A"}, &stored{status: 200, body: []byte(key + req.Header["A"][0])})
				case 1:
					s.drop(key)
				case 2:
					s.Resize(int64(i)<<8, 4<<10)
					s.Snapshot()
				default:
					if c := s.lookup(key, req); c != nil && string(c.body) != key+req.Header["A"][0] {
						t.Errorf("asked for %s, got %s", key+req.Header["A"][0], c.body)
					}
				}
			}
		})
	}
	wait.Wait()
}

// Calls of one target keep and read copies at the same time.
func TestStaleConcurrent(t *testing.T) {
	bubble(t, stale, func(r *rig) {
		r.up.choose = func(n int) reply {
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
