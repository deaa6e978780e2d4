package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// shortSoak is how often the file is rewritten in an ordinary run; make soak
// does it as often as SOAK says.
const shortSoak = 20

// soaked is a configuration that differs with its number: limits, timeouts and
// a fallback of two dependencies that are called all the time, one that comes
// and goes, and one whose circuit is open and stays so.
func soaked(n int) string {
	text := base + fmt.Sprintf(`
cache: {max_bytes: %dMiB}
log: {level: warn}
dependencies:
  - {name: a, listen: $A, upstream: "http://$U", bulkhead: {max_concurrent: %d, max_waiting: 1500, queue_timeout: 25s}, timeout: 25s, attempt_timeout: 25s}
  - {name: b, listen: $B, upstream: "http://$U", bulkhead: {max_concurrent: 60, max_waiting: %d, queue_timeout: 25s}, timeout: %ds, attempt_timeout: 25s, fallback: [{static: {body_file: body.txt}}]}
  - {name: sick, listen: $SICK, upstream: "http://$U", breaker: {cooldown: 1h, min_calls: %d}}
`, 1+n%7, 20+n%11, 2000+n, 25+n%3, 5+n)
	if n%2 == 0 {
		text += "  - {name: comes, listen: $COMES, upstream: \"http://$U\"}\n"
	}
	return text
}

// The file is rewritten again and again, in every way, whether or not the last
// writing was noticed yet, broken now and then, under load.
// Right: not one call fails, no counter is lost or falls, what did not change
// is as it was, and in the end the last file is in force.
func TestSoak(t *testing.T) {
	rewrites := shortSoak
	if text := os.Getenv("SOAK"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("SOAK must be a number of rewrites, got %q", text)
		}
		rewrites = n
	} else {
		t.Parallel()
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("%d rewrites, seed %d", rewrites, seed)
	random := rand.New(rand.NewPCG(seed, 0))
	u := newUpstream(t, func(x *exchange) {
		if x.req.URL.Path == "/fails" {
			x.respond(http.StatusInternalServerError, "no")
			return
		}
		x.respond(http.StatusOK, "ok")
	})
	s := start(t, strings.Replace(soaked(0), ", fallback: [{static: {body_file: body.txt}}]", "", 1), u)
	for range 3 {
		s.get("SICK", "/fails")
	}
	until := s.api(t, "sick").Breaker.OpenUntil
	if until == nil {
		t.Fatal("the circuit is not open")
	}
	var fell atomic.Pointer[string]
	stopScrapes := watchCounters(s, &fell)
	rate := 100
	var calls [2]atomic.Int64
	l := startLoad(rate, time.Hour, func(i int) result {
		calls[i%2].Add(1)
		return s.get([]string{"A", "B"}[i%2], "/")
	})
	w := &rewriter{t: t, s: s, volume: &configMap{dir: filepath.Dir(s.path)}, random: random}
	for n := 1; n <= rewrites; n++ {
		w.rewrite(n)
	}
	s.awaitLive(t, "the last file", showsNumber(2000+rewrites))
	if text, err := s.ask(http.MethodGet, s.url("ADMIN")+"/api/config", ""); err != nil || strings.Contains(string(text), "name: comes\n") != (rewrites%2 == 0) {
		t.Errorf("in the end the configuration is\n%s %v", text, err)
	}
	s.wantMetric(t, 1, "sidecar_config_last_reload_successful")
	l.stop()
	all := l.wait()
	stopScrapes()
	if bad := only(all, func(r result) bool { return r.err != nil || r.status != http.StatusOK || r.body != "ok" }); len(bad) > 0 {
		t.Errorf("%d of %d calls failed, the first: %v", len(bad), len(all), bad[0])
	}
	if text := fell.Load(); text != nil {
		t.Error(*text)
	}
	for i, name := range []string{"a", "b"} {
		s.wantMetric(t, float64(calls[i].Load()), "sidecar_requests_total", "dependency", name, "outcome", "ok")
	}
	if b := s.api(t, "sick").Breaker; b.State != "open" || b.OpenUntil == nil || !b.OpenUntil.Equal(*until) {
		t.Errorf("the open circuit became %+v, want it open until %s", b, until)
	}
	t.Logf("%d calls, %v reloads, %v refused", len(all), s.reloads(t, "success"), s.reloads(t, "failure"))
}

// watchCounters scrapes until the returned function is called, and notes a
// counter that falls while its dependency stays.
func watchCounters(s *sidecar, fell *atomic.Pointer[string]) (stop func()) {
	ends, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		last := map[string]float64{}
		for {
			select {
			case <-ends:
				return
			case <-time.After(50 * time.Millisecond):
			}
			now, err := s.tryMetrics()
			if err != nil {
				text := "a scrape failed: " + err.Error()
				fell.Store(&text)
				continue
			}
			for _, m := range now {
				counter := strings.HasSuffix(m.name, "_total") || strings.HasSuffix(m.name, "_count")
				if !counter || m.labels["dependency"] == "comes" {
					continue
				}
				key := fmt.Sprint(m.name, m.labels)
				if m.value < last[key] {
					text := fmt.Sprintf("%s fell from %v to %v", key, last[key], m.value)
					fell.Store(&text)
				}
				last[key] = m.value
			}
		}
	}()
	return func() {
		close(ends)
		<-ended
	}
}

// rewriter replaces a configuration in every way there is.
type rewriter struct {
	t      *testing.T
	s      *sidecar
	volume *configMap
	random *rand.Rand
}

// rewrite writes configuration n in one way, and waits for it or not.
func (w *rewriter) rewrite(n int) {
	text, path := w.s.expand(w.t, soaked(n)), w.s.path
	body := filepath.Join(filepath.Dir(path), "body.txt")
	ways := []func(*testing.T, string, string){overwrite, drip, rename, vim, anew}
	switch way := w.random.IntN(len(ways) + 2); {
	case way < len(ways):
		w.plain(body, fmt.Sprint("body ", n))
		w.unlink(path)
		ways[way](w.t, path, text)
	case way == len(ways):
		folderAnew(w.t, path, text)
		w.volume.generation = 0
		w.plain(body, fmt.Sprint("body ", n))
	default:
		w.volume.swap(w.t, map[string]string{"sidecar.yaml": text, "body.txt": fmt.Sprint("body ", n)})
		w.relink(path, body)
	}
	switch w.random.IntN(4) {
	case 0:
		w.s.awaitLive(w.t, fmt.Sprintf("rewrite %d", n), showsNumber(2000+n))
	case 1:
		time.Sleep(time.Duration(w.random.IntN(600)) * time.Millisecond)
	case 2:
		rename(w.t, path, "dependencies: [ # broken\n")
		time.Sleep(time.Duration(w.random.IntN(600)) * time.Millisecond)
		rename(w.t, path, text)
	}
}

// plain makes a file of its own of what may be a link.
func (w *rewriter) plain(path, text string) {
	w.unlink(path)
	rename(w.t, path, text)
}

// unlink replaces a link by a copy of its file, so that what is written to it
// does not go elsewhere.
func (w *rewriter) unlink(path string) {
	if _, err := os.Readlink(path); err != nil {
		return
	}
	if data, err := os.ReadFile(path); err == nil {
		rename(w.t, path, string(data))
	}
}

// relink makes links into ..data of plain files.
func (w *rewriter) relink(paths ...string) {
	for _, path := range paths {
		next := path + ".link"
		_ = os.Remove(next)
		if err := os.Symlink("..data/"+filepath.Base(path), next); err != nil {
			w.t.Fatal(err)
		}
		if err := os.Rename(next, path); err != nil {
			w.t.Fatal(err)
		}
	}
}
