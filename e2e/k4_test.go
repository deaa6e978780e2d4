package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// mebibyte is the size of an ordinary object in the cases of K4.
const mebibyte = 1 << 20

// sized answers /N, and /N?chunked without saying how long it is, with N KiB.
func sized(w http.ResponseWriter, r *http.Request) {
	kib, _ := strconv.Atoi(strings.SplitN(r.URL.Path, "/", 3)[1])
	if r.URL.RawQuery != "chunked" {
		w.Header().Set("Content-Length", strconv.Itoa(kib<<10))
	}
	_, _ = io.Copy(w, io.LimitReader(zeros{}, int64(kib)<<10))
}

// flood makes one GET call for each of a number of paths, a few at a time, and
// wants each answered with a number of bytes.
func (s *sidecar) flood(t *testing.T, port string, n, bytes int, path func(i int) string) {
	t.Helper()
	var next atomic.Int64
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				res, err := s.client.Get(s.url(port) + path(i))
				if err != nil {
					t.Errorf("%s: %v", path(i), err)
					return
				}
				got, err := io.Copy(io.Discard, res.Body)
				res.Body.Close()
				if err != nil || res.StatusCode != http.StatusOK || got != int64(bytes) {
					t.Errorf("%s: %s, %d bytes, %v", path(i), res.Status, got, err)
					return
				}
			}
		})
	}
	all.Wait()
}

// What happened: a cache bounded by its number of entries grew to gigabytes,
// and the first byte of a large object waited for its last.
// Right: memory stays within the limit and a margin (garbage waits for the
// collector, and bodies are on their way);
// evictions are counted; an object above max_object_bytes streams and is not
// kept.
func TestK4_CacheBoundedByBytes(t *testing.T) {
	notUnderRace(t)
	const urls, limit, margin = 2000, 32 << 20, 48 << 20
	var asked atomic.Int64 // for the large object
	v := newServer(t, "http1", nil, func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/large") {
			sized(w, r)
			return
		}
		asked.Add(1)
		if r.URL.RawQuery == "" {
			w.Header().Set("Content-Length", strconv.Itoa(100*mebibyte))
		}
		w.WriteHeader(http.StatusOK)
		_, _ = io.Copy(w, io.LimitReader(zeros{}, mebibyte))
		_ = http.NewResponseController(w).Flush()
		time.Sleep(500 * time.Millisecond) // whoever collects it is late
		_, _ = io.Copy(w, io.LimitReader(zeros{}, 99*mebibyte))
	})
	s := start(t, base+`
cache: {max_bytes: 32MiB, max_object_bytes: 1MiB}
dependencies:
  - {name: a, listen: $A, upstream: "http://`+v.addr+`", attempt_timeout: 5s, timeout: 60s, fallback: [{stale: {max_age: 10m}}]}
`)
	s.without(t, v)
	s.get("A", "/1") // whatever a first call needs
	growth := s.watchMemory(t)
	began := time.Now()
	s.flood(t, "A", urls, mebibyte, func(i int) string {
		if i%2 == 0 {
			return fmt.Sprintf("/1024/%d?chunked", i)
		}
		return fmt.Sprintf("/1024/%d", i)
	})
	took := time.Since(began)
	s.wantMetric(t, urls+1, "sidecar_cache_stores_total")
	for _, path := range []string{"/large", "/large?chunked", "/large"} {
		sent := time.Now()
		res, err := s.client.Get(s.url("A") + path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.ReadFull(res.Body, make([]byte, 1))
		wantWithin(t, "the first byte of "+path, time.Since(sent), 100*time.Millisecond)
		n, copyErr := io.Copy(io.Discard, res.Body)
		res.Body.Close()
		if err != nil || copyErr != nil || n != 100*mebibyte-1 || res.Header.Get("Sidecar-Degraded") != "" {
			t.Errorf("%s: %d bytes, %v, %v", path, n+1, err, copyErr)
		}
	}
	if by := growth(); by > limit+margin {
		t.Errorf("memory grew by %d MiB, want at most %d and %d", by>>20, limit>>20, margin>>20)
	} else {
		t.Logf("memory grew by %d MiB; %d MiB passed in %s", by>>20, urls, round(took))
	}
	s.wantMetric(t, 3, "sidecar_cache_skips_total", "reason", "too_large")
	if n := asked.Load(); n != 3 {
		t.Errorf("the large object was asked for %d times, want 3", n)
	}
	all := s.metrics(t)
	entries, bytes := all.sum(t, "sidecar_cache_entries"), all.sum(t, "sidecar_cache_bytes")
	if evicted := all.sum(t, "sidecar_cache_evictions_total"); evicted != urls+1-entries || entries < 28 || entries > 32 || bytes > limit {
		t.Errorf("%v copies of %v bytes are left and %v were evicted, want %d in all and at most %d bytes", entries, bytes, evicted, urls+1, limit)
	}
	s.force(t, "a", "open")
	if r := s.get("A", "/large"); r.status != http.StatusServiceUnavailable {
		t.Errorf("the large object in an outage: status %d, %d bytes", r.status, len(r.body))
	}
}

// What happened: one dependency's flood of answers took the whole cache, and
// the next outage of another one found no copy of it.
// Right: each is sure of its share, which the API shows; what others leave free
// it may borrow, and it gives back that alone.
func TestK4_FloodTakesNoneOfAnothersShare(t *testing.T) {
	t.Parallel()
	const limit, object = 8 << 20, 64 << 10
	v := newServer(t, "http1", nil, sized)
	s := start(t, base+strings.ReplaceAll(`
cache: {max_bytes: 8MiB}
dependencies:
  - {name: a, listen: $A, upstream: "http://V", attempt_timeout: 9s, timeout: 9s, fallback: [{stale: {max_age: 10m}}]}
  - {name: b, listen: $B, upstream: "http://V", attempt_timeout: 9s, timeout: 9s, fallback: [{stale: {max_age: 10m}}]}
  - {name: without, listen: $C, upstream: "http://V"}
`, "V", v.addr))
	s.without(t, v)
	on := func(name string) func(i int) string {
		return func(i int) string { return fmt.Sprintf("/64/%s/%d", name, i) }
	}
	share := func(name string, least, most int64) {
		t.Helper()
		d := s.api(t, name).Cache
		if d.Share < limit*45/100 || d.Share > limit/2 {
			t.Errorf("the share of %s is %d, want nearly half of %d", name, d.Share, limit)
		}
		if d.Bytes < least || d.Bytes > most || d.Entries < int(least/object)-1 || d.Oldest == nil {
			t.Errorf("%s has %+v, want %d to %d bytes", name, d, least, most)
		}
	}
	if d := s.api(t, "without").Cache; d.Entries != 0 || d.Bytes != 0 || d.Share != 0 || d.Oldest != nil {
		t.Errorf("a dependency without copies shows %+v", d)
	}
	const own = 50 // 50 of 64 KiB: less than a share
	s.flood(t, "B", own, object, on("b"))
	s.flood(t, "A", 600, object, on("a"))
	share("b", own*object, limit/2)
	share("a", limit*40/100, limit-own*object)
	s.force(t, "b", "open")
	for i := range own {
		if r := s.get("B", on("b")(i)); r.status != http.StatusOK || len(r.body) != object || r.header.Get("Sidecar-Degraded") == "" {
			t.Fatalf("copy %d of b after a's flood: status %d, %d bytes", i, r.status, len(r.body))
		}
	}
	s.force(t, "b", "auto")
	// What a has borrowed it gives back, and no more.
	s.flood(t, "B", 600, object, on("more"))
	share("b", limit*40/100, limit*60/100)
	share("a", limit*40/100, limit*60/100)
	all := s.metrics(t)
	if bytes := all.sum(t, "sidecar_cache_bytes"); bytes > limit {
		t.Errorf("%v bytes are kept, want at most %d", bytes, limit)
	}
	if all.sum(t, "sidecar_cache_evictions_total")+all.sum(t, "sidecar_cache_entries") != all.sum(t, "sidecar_cache_stores_total") {
		t.Errorf("copies are lost count of: %v", all.find("sidecar_cache_stores_total"))
	}
}
