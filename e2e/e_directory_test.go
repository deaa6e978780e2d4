package e2e

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// What happened: a reload that moved the cache lost every copy, or left an old
// directory behind whose copies came back to life with the next change.
// Right: copies live on through every change of cache.dir; the directory that
// is left is emptied; what a later start finds is what was true last.
func TestE6_ReloadMovesTheDirectory(t *testing.T) {
	t.Parallel()
	version := "one"
	var mu sync.Mutex // guards version
	u := newUpstream(t, func(x *exchange) {
		_, _ = x.body()
		mu.Lock()
		defer mu.Unlock()
		x.leaving(http.StatusOK, version+x.req.URL.Path)
	})
	first, second := filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "second")
	in := func(dir string) string { return fmt.Sprintf(onDisk, dir, "") }
	memory := in(`""`)
	s := start(t, in(first), u) // what it holds now is what it may hold at the end
	s.reload(t, memory)
	const pages = 20
	for i := range pages {
		s.get("A", fmt.Sprintf("/%d", i))
	}
	still := func(where string) {
		t.Helper()
		s.wantMetric(t, pages, "sidecar_cache_entries")
		s.wantMetric(t, pages, "sidecar_cache_stores_total")
		for i := range pages {
			s.force(t, "a", "open")
			wantCopy(t, s.get("A", fmt.Sprintf("/%d", i)), fmt.Sprintf("one/%d", i), "open")
		}
		s.force(t, "a", "auto")
		if all := s.warnings(); len(all) > 0 {
			t.Errorf("%s: warnings %q", where, all)
		}
	}
	still("in memory")
	for i, step := range []struct {
		yaml              string
		inFirst, inSecond int
	}{
		{yaml: in(first), inFirst: pages}, {yaml: in(second), inSecond: pages}, {yaml: in(first), inFirst: pages}, {yaml: memory},
		{yaml: in(second), inSecond: pages}, {yaml: memory}, {yaml: in(first), inFirst: pages},
	} {
		s.reload(t, step.yaml)
		// What is left is empty as soon as the reload has been answered.
		if paths, _ := copyFiles(t, first); step.inFirst == 0 && len(paths) > 0 {
			t.Errorf("step %d: %d files were left in the first directory", i, len(paths))
		}
		if paths, _ := copyFiles(t, second); step.inSecond == 0 && len(paths) > 0 {
			t.Errorf("step %d: %d files were left in the second directory", i, len(paths))
		}
		still(fmt.Sprintf("step %d", i))
		if step.inFirst+step.inSecond > 0 {
			awaitFiles(t, first, step.inFirst)
			awaitFiles(t, second, step.inSecond)
		}
	}
	// A change while the copies are elsewhere, a move back, and a crash.
	s.reload(t, in(second))
	awaitFiles(t, second, pages)
	mu.Lock()
	version = "two"
	mu.Unlock()
	if r := s.do(context.Background(), http.MethodPost, "A", "/0", strings.NewReader("x")); r.status != http.StatusOK {
		t.Fatal(r)
	}
	awaitFiles(t, second, pages-1)
	u.refuse()
	for _, dir := range []string{first, second} {
		s.kill(t)
		s.write(t, in(dir))
		s.restart(t)
		if r := s.get("A", "/0"); r.status != http.StatusBadGateway {
			t.Errorf("a page that was changed, from %s: %v, want 502", dir, r)
		}
	}
	s.wantMetric(t, pages-1, "sidecar_cache_entries")
	wantCopy(t, s.get("A", "/1"), "one/1", "connect")
}

// What happened: a full directory of copies was read before the process was
// ready, and the pod with it.
// Right: it is ready as soon as without any; calls are answered meanwhile.
func TestE6_StartDoesNotWaitForFiles(t *testing.T) {
	notUnderRace(t)
	const pages, size = 2000, 48 << 10
	body := strings.Repeat("x", size)
	v := newServer(t, "http1", nil, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.Path, body) })
	dir := filepath.Join(t.TempDir(), "copies")
	s := start(t, strings.ReplaceAll(fmt.Sprintf(onDisk, dir, ", max_bytes: 200MiB"), "$U", v.addr))
	s.without(t, v)
	for i := range pages {
		if r := s.get("A", fmt.Sprintf("/%d", i)); r.status != http.StatusOK {
			t.Fatal(r)
		}
	}
	s.stop(t) // writes what is left
	awaitFiles(t, dir, pages)
	began := time.Now()
	s.restart(t)
	ready := time.Since(began)
	entries := s.metrics(t).sum(t, "sidecar_cache_entries")
	r := s.get("A", "/new")
	wantWithin(t, "the start", ready, 300*time.Millisecond)
	if r.status != http.StatusOK || r.header.Get("Sidecar-Degraded") != "" {
		t.Errorf("a call right after the start: %v", r)
	}
	if !poll(patience, func() bool { return s.metrics(t).sum(t, "sidecar_cache_entries") == pages+1 }) {
		t.Errorf("%v copies are there, want %d", s.metrics(t).sum(t, "sidecar_cache_entries"), pages+1)
	}
	t.Logf("ready after %s with %v copies, all %d after %s", round(ready), entries, pages, round(time.Since(began)))
	s.force(t, "a", "open")
	for _, i := range []int{0, 999, pages - 1} {
		wantCopy(t, s.get("A", fmt.Sprintf("/%d", i)), fmt.Sprint("/", i, body), "open")
	}
}

// What happened: memory was bounded, and the disk ran full.
// Right: max_bytes bounds both, from the first second on, after a reload that
// lowers it and in a directory that an earlier process had filled.
func TestK4_DirectoryIsBoundedToo(t *testing.T) {
	t.Parallel()
	const object = 100 << 10
	body := strings.Repeat("x", object)
	u := newUpstream(t, func(x *exchange) { x.respond(http.StatusOK, body) })
	dir := filepath.Join(t.TempDir(), "copies")
	limited := func(mib int) string { return fmt.Sprintf(onDisk, dir, fmt.Sprintf(", max_bytes: %dMiB", mib)) }
	s := start(t, limited(8), u)
	var most int64
	loads := startLoad(100, 4*time.Second, func(i int) result { return s.get("A", fmt.Sprintf("/%d", i)) })
	for {
		_, bytes := copyFiles(t, dir)
		most = max(most, bytes)
		if most > 12<<20 {
			t.Fatalf("the directory holds %d KiB, want at most 8 MiB and a little", most>>10)
		}
		select {
		case <-loads.done:
		case <-time.After(20 * time.Millisecond):
			continue
		}
		break
	}
	bounded := func(mib int, least int64) {
		t.Helper()
		var now int64
		limit := int64(mib) << 20
		if !poll(5*time.Second, func() bool {
			_, now = copyFiles(t, dir)
			entries := s.metrics(t).sum(t, "sidecar_cache_bytes")
			return now <= limit && now >= least && entries <= float64(limit)
		}) {
			t.Errorf("the directory holds %d KiB and memory %v, want %d to %d", now>>10, s.metrics(t).sum(t, "sidecar_cache_bytes"), least>>10, limit>>10)
		}
	}
	bounded(8, 6<<20)
	s.reload(t, limited(4))
	bounded(4, 2<<20)
	u.refuse()
	s.kill(t)
	s.write(t, limited(2))
	s.restart(t)
	bounded(2, 1<<20)
	t.Logf("at most %d KiB in the directory", most>>10)
	if all := s.warnings(); len(all) > 0 {
		t.Errorf("warnings: %q", all)
	}
}
