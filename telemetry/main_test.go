package telemetry

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"sidecar/proxy"
	"sidecar/stale"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeSource is a Source with fixed answers.
type fakeSource struct {
	mu        sync.Mutex
	snapshots []proxy.Snapshot
	store     stale.Snapshot
}

func (s *fakeSource) Snapshots() []proxy.Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]proxy.Snapshot(nil), s.snapshots...)
}

func (s *fakeSource) Store() stale.Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.store
}

// set changes the answers.
func (s *fakeSource) set(store stale.Snapshot, snapshots ...proxy.Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store, s.snapshots = store, snapshots
}

// scrape returns every series of the sidecar's own, as /metrics shows it.
func scrape(t *testing.T, tele *Telemetry) map[string]float64 {
	t.Helper()
	w := httptest.NewRecorder()
	tele.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("scrape answered %d: %s", w.Code, w.Body)
	}
	series := map[string]float64{}
	for line := range strings.Lines(w.Body.String()) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "} ")
		if ok {
			name += "}"
		} else {
			name, value, _ = strings.Cut(name, " ")
		}
		if !strings.HasPrefix(name, "sidecar_") {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		series[name] = v
	}
	return series
}

// expect checks some series.
func expect(t *testing.T, got map[string]float64, want map[string]float64) {
	t.Helper()
	for name, v := range want {
		if g, ok := got[name]; !ok || g != v {
			t.Errorf("%s = %v (present: %v), want %v", name, g, ok, v)
		}
	}
}

// logged is a log in memory.
type logged struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(p)
}

// lines returns the entries since the last time.
func (l *logged) lines(t *testing.T) []map[string]any {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	text := l.out.String()
	l.out.Reset()
	var entries []map[string]any
	for line := range strings.Lines(text) {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		entries = append(entries, entry)
	}
	return entries
}

// jsonLog returns a logger of JSON and what it wrote.
func jsonLog(t *testing.T) (*zap.Logger, *logged) {
	t.Helper()
	out := &logged{}
	log, _, err := NewLogger("info", "json", out)
	if err != nil {
		t.Fatal(err)
	}
	return log, out
}
