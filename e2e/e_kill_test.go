package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	killers     = 8  // sidecars that are killed, side by side
	ledgerPages = 24 // of each
)

// kills is how often each sidecar is killed.
func kills() int {
	if slack > 0 || testing.Short() {
		return 3
	}
	return 25
}

// ledger is an upstream's state and what callers know of it: for each target a
// version, which every write raises. It is safe for concurrent use.
type ledger struct {
	mu      sync.Mutex // guards everything below
	version [ledgerPages]int
	acked   [ledgerPages]int // of the last write whose answer a caller has seen
}

// page is the body of a target at a version. It proves itself: a part, a
// mixture or another's does not.
func page(target, version int) string {
	head := fmt.Sprintf("%d %d ", target, version)
	sum := sha256.Sum256([]byte(head))
	return head + strings.Repeat(hex.EncodeToString(sum[:]), 1+(target*target*37+version)%600)
}

// whole takes a page apart; false if it is none.
func whole(body string) (target, version int, ok bool) {
	_, err := fmt.Sscanf(body, "%d %d ", &target, &version)
	return target, version, err == nil && target >= 0 && version >= 0 && body == page(target, version)
}

// serve answers a GET with the target's page and anything else with a new
// version.
func (l *ledger) serve(x *exchange) {
	_, _ = x.body()
	target, _ := strconv.Atoi(strings.TrimPrefix(x.req.URL.Path, "/"))
	l.mu.Lock()
	if x.req.Method != http.MethodGet {
		l.version[target]++
	}
	version := l.version[target]
	l.mu.Unlock()
	if x.req.Method != http.MethodGet {
		x.respond(http.StatusOK, strconv.Itoa(version))
		return
	}
	x.respond(http.StatusOK, page(target, version))
}

// read makes a GET call and checks its answer; true if that was a copy.
func (l *ledger) read(t *testing.T, s *sidecar, target int) (copied bool) {
	t.Helper()
	l.mu.Lock()
	least := l.acked[target]
	l.mu.Unlock()
	r := s.get("A", fmt.Sprintf("/%d", target))
	if r.status == 0 || r.status != http.StatusOK && r.err != nil {
		return false // the sidecar was killed
	}
	if r.status == http.StatusBadGateway || r.status == http.StatusServiceUnavailable {
		return false
	}
	copied = r.header.Get("Sidecar-Degraded") != ""
	if r.err != nil {
		if copied {
			t.Errorf("a copy of %d broke off: %v", target, r.err)
		}
		return false
	}
	of, version, ok := whole(r.body)
	l.mu.Lock()
	most := l.version[target]
	l.mu.Unlock()
	if !ok || of != target || version < least || version > most {
		t.Errorf("target %d (copied: %v) got %d bytes of target %d, version %d (whole: %v), want %d to %d", target, copied, len(r.body), of, version, ok, least, most)
	}
	return copied
}

// write makes a POST call; whoever sees its answer knows of the new version.
func (l *ledger) write(s *sidecar, target int) {
	r := s.do(context.Background(), http.MethodPost, "A", fmt.Sprintf("/%d", target), strings.NewReader("x"))
	version, err := strconv.Atoi(r.body)
	if r.status != http.StatusOK || r.err != nil || err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked[target] = max(l.acked[target], version)
}

// busy reads and writes until it is ended: low targets are written often, high
// ones hardly ever, so that some have copies on disk at any time.
func (l *ledger) busy(t *testing.T, s *sidecar, rnd *rand.Rand) (end func()) {
	t.Helper()
	var done sync.WaitGroup
	var over atomic.Bool
	for range 2 {
		own := rand.New(rand.NewPCG(rnd.Uint64(), 1))
		done.Go(func() {
			for !over.Load() {
				target := own.IntN(ledgerPages)
				if own.IntN(4+target*target) == 0 {
					l.write(s, target)
				} else {
					l.read(t, s, target)
				}
				time.Sleep(time.Duration(own.IntN(10)) * time.Millisecond)
			}
		})
	}
	return func() {
		over.Store(true)
		done.Wait()
	}
}

// What happened: a process that was killed while it wrote left half a file, and
// showed it; or a copy that had been made invalid came back to life.
// Right: killed at any moment, 200 times, and started again in an outage: every
// answer is a failure or a whole page of its target, none older than the last
// write whose answer was seen. Some lives see cache.dir move meanwhile.
func TestE6_KilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	var seen tally
	began := time.Now()
	var all sync.WaitGroup
	for range killers {
		all.Go(func() { lives(t, &seen) })
	}
	all.Wait()
	if seen.shown.Load() != seen.files.Load() || seen.shown.Load() < seen.kills.Load() {
		t.Errorf("%d copies were shown of %d files after %d kills", seen.shown.Load(), seen.files.Load(), seen.kills.Load())
	}
	t.Logf("killed %d times in %s; %d copies came back", seen.kills.Load(), round(time.Since(began)), seen.shown.Load())
}

// tally is what all lives have seen.
type tally struct{ kills, files, shown atomic.Int64 }

// lives runs a sidecar through all its lives.
func lives(t *testing.T, seen *tally) {
	rnd := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	l := &ledger{}
	u := newUpstream(t, l.serve)
	dirs := []string{filepath.Join(t.TempDir(), "copies"), filepath.Join(t.TempDir(), "others")}
	at := 0
	s := start(t, fmt.Sprintf(onDisk, dirs[at], ""), u)
	for range kills() {
		end := l.busy(t, s, rnd)
		wait(rnd)
		if rnd.IntN(5) == 0 {
			at = 1 - at
			s.reload(t, fmt.Sprintf(onDisk, dirs[at], ""))
			wait(rnd)
		}
		s.kill(t)
		end()
		seen.kills.Add(1)
		paths, _ := copyFiles(t, dirs[at])
		u.refuse()
		s.restart(t)
		// A file that is torn, or of no use, would be missing here.
		s.wantMetric(t, float64(len(paths)), "sidecar_cache_entries")
		seen.files.Add(int64(len(paths)))
		for target := range ledgerPages {
			if l.read(t, s, target) {
				seen.shown.Add(1)
			}
		}
		u.accept(t)
	}
	if all := s.warnings(); len(all) > 0 {
		t.Errorf("warnings: %q", all)
	}
}

// wait lets a moment pass: any, or one while copies are being written, which
// begins a second after they came.
func wait(rnd *rand.Rand) {
	if rnd.IntN(2) == 0 {
		time.Sleep(time.Duration(rnd.IntN(1000)) * time.Millisecond)
		return
	}
	time.Sleep(time.Second + time.Duration(rnd.IntN(100_000))*time.Microsecond)
}
