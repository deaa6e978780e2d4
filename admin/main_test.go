package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sidecar/proxy"
	"sidecar/resilience/breaker"
	"sidecar/resilience/bulkhead"
	"sidecar/stale"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// opened is when the first dependency of the fake opened.
var opened = time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.FixedZone("", 3600))

// fake is a Supervisor and the Statistics of two dependencies.
type fake struct {
	mu        sync.Mutex
	snapshots []proxy.Snapshot
	ready     bool
	fails     error // of Reload and EffectiveConfig
	reloads   int
	lastError error
	forbids   error // of Drill
}

func newFake() *fake {
	return &fake{ready: true, snapshots: []proxy.Snapshot{
		{
			Name: "payments", Upstream: "https://xxxxx@payments.internal:8443/base",
			Breaker: breaker.Snapshot{
				State: breaker.Open, Since: opened, OpenUntil: opened.Add(30 * time.Second), Reason: "11 of 20 calls failed",
				Calls: 20, Failures: 11, Slow: 1, OpenedTotal: 2, OpenTime: 61200 * time.Millisecond,
			},
			Bulkhead: bulkhead.Snapshot{
				Limit: 5, MaxConcurrent: 20, InUse: 3, Waiting: 2, MaxWaiting: 10, OldestWait: 125 * time.Millisecond,
			},
			Copies: stale.ShelfSnapshot{Entries: 3, Bytes: 4096, Share: 1 << 20, Oldest: 37500 * time.Millisecond},
		},
		{Name: `a/b "c"<script>é?`, Upstream: "http://127.0.0.1:1", Breaker: breaker.Snapshot{Since: opened, Mode: breaker.Observe}},
	}}
}

func (f *fake) Snapshots() []proxy.Snapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]proxy.Snapshot(nil), f.snapshots...)
}

func (f *fake) Listen(name string) string {
	if name == "payments" {
		return "127.0.0.1:7001"
	}
	return "127.0.0.1:7002"
}

func (f *fake) Force(name string, order breaker.Forced) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.snapshots {
		if b := &f.snapshots[i].Breaker; f.snapshots[i].Name == name {
			b.Forced = order
			b.OpenUntil = time.Time{}
			b.State = map[breaker.Forced]breaker.State{breaker.ForcedOpen: breaker.Open}[order]
			return nil
		}
	}
	return errors.New("no such dependency")
}

func (f *fake) Drill(name string, order proxy.Drill) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.forbids != nil {
		return f.forbids
	}
	for i := range f.snapshots {
		if f.snapshots[i].Name == name {
			f.snapshots[i].Drill = &proxy.DrillSnapshot{Drill: order, Until: opened.Add(order.For)}
			return nil
		}
	}
	return ErrUnknown
}

func (f *fake) EndDrill(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.snapshots {
		if f.snapshots[i].Name == name {
			f.snapshots[i].Drill = nil
			return nil
		}
	}
	return ErrUnknown
}

func (f *fake) Reload(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reloads++
	return errors.Join(f.fails, ctx.Err())
}

func (f *fake) EffectiveConfig() ([]byte, error) { return []byte("admin: {}\n"), f.fails }
func (f *fake) Ready() bool                      { return f.ready }
func (f *fake) LastReload() (time.Time, error)   { return opened, f.lastError }

func (f *fake) Fallbacks(name string) (map[proxy.Source]uint64, time.Duration, bool) {
	if name != "payments" {
		return nil, 0, false
	}
	return map[proxy.Source]uint64{proxy.SourceStale: 100, proxy.SourceStatic: 3}, 37500 * time.Millisecond, true
}

func (f *fake) Counts(name string) map[proxy.Outcome]uint64 {
	if name != "payments" {
		return nil
	}
	return map[proxy.Outcome]uint64{
		proxy.OutcomeOK: 101, proxy.OutcomeFailed: 102, proxy.OutcomeFallback: 103,
		proxy.OutcomeRejected: 104, proxy.OutcomeCanceled: 105,
	}
}

func (f *fake) Latency(name string) (p50, p99 time.Duration, ok bool) {
	return 4 * time.Millisecond, 1500 * time.Millisecond, name == "payments"
}

// configError is what Reload may return.
type configError struct{ faults []Fault }

func (configError) Error() string { return "x.yaml:3: a.b: must be above 0, got 0" }

// options are those of a whole server around a fake.
func options(f *fake) Options {
	return Options{
		Supervisor: f,
		Statistics: f,
		Subscribe: func(ctx context.Context) func(context.Context) (string, []byte, error) {
			return func(wait context.Context) (string, []byte, error) {
				select {
				case <-ctx.Done():
					return "", nil, context.Cause(ctx)
				case <-wait.Done():
					return "", nil, context.Cause(wait)
				}
			}
		},
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "up 1\n")
		}),
		Faults: func(err error) []Fault {
			var c configError
			errors.As(err, &c)
			return c.faults
		},
		Version: "1.2.3",
	}
}

// request makes a request as a program on this machine sends it. headers are
// pairs of a name and a value; "Host" sets the host.
func request(method, target, body string, headers ...string) *http.Request {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Host = "127.0.0.1:9900"
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
			continue
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

// ask sends a request to a handler.
func ask(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// expectProblem checks an error's form and returns its detail.
func expectProblem(t *testing.T, w *httptest.ResponseRecorder, status int) string {
	t.Helper()
	var p struct {
		Status        int
		Title, Detail string
	}
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatalf("status %d, body %q: %v", w.Code, w.Body, err)
	}
	if w.Code != status || p.Status != status || p.Title != http.StatusText(status) || p.Detail == "" {
		t.Errorf("answer %d with %+v, want %d", w.Code, p, status)
	}
	if got := w.Header().Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("Content-Type is %q", got)
	}
	return p.Detail
}
