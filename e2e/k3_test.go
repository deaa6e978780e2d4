package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// gibibyte is what goes through a sidecar that must not grow by it.
const gibibyte = 1 << 30

// resident returns the memory that the process occupies, in bytes; 0 where the
// system does not tell.
func (s *sidecar) resident() int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	pages, _ := strconv.ParseInt(string(bytes.Fields(text)[1]), 10, 64)
	return pages * int64(os.Getpagesize())
}

// watchMemory samples the process's memory until it is asked by how much it
// has grown at most.
func (s *sidecar) watchMemory(t *testing.T) (growth func() int64) {
	t.Helper()
	before := s.resident()
	if before == 0 {
		t.Skip("this system does not tell a process's memory")
	}
	var most atomic.Int64
	ends := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		for {
			most.Store(max(most.Load(), s.resident()))
			select {
			case <-ends:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	return func() int64 {
		close(ends)
		done.Wait()
		return most.Load() - before
	}
}

// notUnderRace skips a test of memory in a race build.
func notUnderRace(t *testing.T) {
	if slack > 0 {
		t.Skip("the race detector multiplies the memory that a process needs")
	}
}

// What happened: a caller that did not read cost the whole answer in memory.
// Right: the upstream is throttled instead, other dependencies notice nothing,
// and a reader that goes on reading gets everything.
func TestK3_SlowReaders(t *testing.T) {
	notUnderRace(t)
	const readers, size = 10, 256 << 20
	piece := string(bytes.Repeat([]byte("0123456789abcdef"), 4<<10))
	var written atomic.Int64
	u := newUpstream(t, func(x *exchange) {
		if x.req.URL.Path == "/small" {
			x.respond(http.StatusOK, "ok")
			return
		}
		x.head(http.StatusOK, fmt.Sprintf("Content-Length: %d", size))
		for sent := 0; sent < size && x.write(piece); sent += len(piece) {
			written.Add(int64(len(piece)))
		}
	})
	other := newUpstream(t, ok)
	s := start(t, stale+`
  retry: {max_retries: 2}
dependencies:
  - {name: a, listen: $A, upstream: "http://$U", timeout: 60s}
  - {name: b, listen: $B, upstream: "http://$U2", attempt_timeout: 5s, timeout: 5s}
`, u, other)
	together(readers, func(int) result { return s.get("A", "/small") })
	growth := s.watchMemory(t)
	var stalled []*rawCaller
	for i := range readers {
		c := s.dial(t, "A")
		c.get(t, fmt.Sprintf("/large/%d", i))
		stalled = append(stalled, c)
	}
	beside := startLoad(50, 4*time.Second, func(int) result { return s.get("B", "/") })
	u.await(t, 2*readers)
	var offered int64
	if !poll(patience, func() bool {
		before := written.Load()
		time.Sleep(500 * time.Millisecond)
		offered = written.Load()
		return offered == before && offered > 0
	}) {
		t.Errorf("the upstream is not held back: it has written %d MiB", offered>>20)
	}
	if most := int64(readers) * size / 4; offered > most {
		t.Errorf("the upstream could write %d MiB to readers that stand still", offered>>20)
	}
	calls := beside.wait()
	for _, r := range calls {
		if r.status != http.StatusOK {
			t.Errorf("a call to the other dependency: %v", r)
			break
		}
	}
	wantWithin(t, "the median call to the other dependency", quantile(calls, 0.5), 50*time.Millisecond)
	for _, c := range stalled[1:] {
		c.leave()
	}
	res, err := http.ReadResponse(stalled[0].in, nil)
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, res.Body)
	if err != nil || n != size {
		t.Errorf("the reader that went on got %d bytes (%v), want %d", n, err, size)
	}
	if by := growth(); by > 64<<20 {
		t.Errorf("memory grew by %d MiB, want less than 64", by>>20)
	} else {
		t.Logf("memory grew by %d MiB; the upstream could write %d MiB", by>>20, offered>>20)
	}
	s.wantMetric(t, 0, "sidecar_cache_evictions_total")
	s.wantIdle(t, "a", 2*time.Second)
}

// What happened: a large transfer was collected, for a retry or for a copy.
// Right: 1 GiB up and 1 GiB down pass with memory growing by less than 32 MiB,
// retries and stale copies being on.
func TestK3_Gibibytes(t *testing.T) {
	notUnderRace(t)
	v := newServer(t, "http1 h2c", nil, func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		w.Header().Set("X-Got", fmt.Sprint(n))
		if r.URL.Path != "/down" {
			return
		}
		if r.URL.RawQuery == "" {
			w.Header().Set("Content-Length", fmt.Sprint(gibibyte))
		}
		_, _ = io.Copy(w, io.LimitReader(zeros{}, gibibyte))
	})
	s := start(t, stale+`
  retry: {max_retries: 2}
dependencies:
  - {name: a, listen: $A, upstream: "http://`+v.addr+`", attempt_timeout: 60s, timeout: 120s}
`)
	s.without(t, v)
	s.client.Timeout = time.Minute
	s.get("A", "/up")
	for name, call := range map[string]func() (*http.Request, int64){
		"up, length known": func() (*http.Request, int64) {
			req := s.request(t, http.MethodPut, "A", "/up", io.LimitReader(zeros{}, gibibyte))
			req.ContentLength = gibibyte
			return req, 0
		},
		"up, chunked": func() (*http.Request, int64) {
			return s.request(t, http.MethodPut, "A", "/up", io.LimitReader(zeros{}, gibibyte)), 0
		},
		"down, length known": func() (*http.Request, int64) { return s.request(t, http.MethodGet, "A", "/down", nil), gibibyte },
		"down, chunked": func() (*http.Request, int64) {
			return s.request(t, http.MethodGet, "A", "/down?chunked", nil), gibibyte
		},
	} {
		t.Run(name, func(t *testing.T) {
			req, down := call()
			growth := s.watchMemory(t)
			began := time.Now()
			res, err := s.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			n, err := io.Copy(io.Discard, res.Body)
			if err != nil || res.StatusCode != http.StatusOK || n != down || down == 0 && res.Header.Get("X-Got") != fmt.Sprint(gibibyte) {
				t.Errorf("got %s, %d bytes down (%v) and %s up", res.Status, n, err, res.Header.Get("X-Got"))
			}
			if by := growth(); by > 32<<20 {
				t.Errorf("memory grew by %d MiB, want less than 32", by>>20)
			} else {
				t.Logf("memory grew by %d MiB in %s", by>>20, round(time.Since(began)))
			}
		})
	}
	s.wantMetric(t, 2, "sidecar_cache_skips_total", "reason", "too_large")
	s.wantMetric(t, 0, "sidecar_retries_total", "dependency", "a")
}

// zeros is a text of nothing without an end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
