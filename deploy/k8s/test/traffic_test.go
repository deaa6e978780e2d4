package deploy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
)

// trafficConfig has a dependency for each kind of trouble.
const trafficConfig = `
admin: {listen: %[1]q}
metrics: {listen: %[2]q}
log: {access: off}
dependencies:
  - name: catalog                       # fails on cue: retries, stale copies, static bodies, an open circuit
    listen: %[3]q
    upstream: %[6]q
    breaker: {consecutive_failures: 4, cooldown: 60s}
    retry: {max_retries: 1}
    fallback: [{stale: {max_age: 10m}}, {static: {body: "{}"}}]
  - name: payments                      # narrow: a queue, and refusals; wider settings are proposed
    listen: %[4]q
    upstream: %[6]q
    bulkhead: {max_concurrent: 1, max_waiting: 1, queue_timeout: 2s}
    shadow: {bulkhead: {max_concurrent: 5}}
  - name: search                        # observed: refuses nothing, and says what it would
    listen: %[5]q
    upstream: %[6]q
    breaker: {mode: observe, consecutive_failures: 1}
`

// watched is a sidecar, and what its app calls.
type watched struct {
	admin, metrics            string
	catalog, payments, search string
	sick                      atomic.Bool   // the upstream answers 503
	release                   chan struct{} // ends one call to /held
	calls                     int           // made until now
}

// startWatched runs a sidecar in front of an upstream that fails on cue.
func startWatched(t *testing.T) *watched {
	t.Helper()
	w := &watched{release: make(chan struct{})}
	upstream := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/held":
			select {
			case <-w.release:
			case <-r.Context().Done():
			}
		case "/secret":
			rw.Header().Set("Cache-Control", "no-store")
		}
		if w.sick.Load() {
			rw.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = io.WriteString(rw, "hello")
	}))
	t.Cleanup(upstream.Close)
	for _, address := range []*string{&w.admin, &w.metrics, &w.catalog, &w.payments, &w.search} {
		*address = freeAddress(t)
	}
	config := write(t, t.TempDir(), "sidecar.yaml", fmt.Sprintf(trafficConfig, w.admin, w.metrics, w.catalog, w.payments, w.search, upstream.URL))
	p := run(t, stopSignal, sidecarBinary(t), "run", "-c", config)
	eventually(t, "the sidecar", func() bool {
		select {
		case <-p.ended:
			t.Fatalf("the sidecar did not start:\n%s", p.out.String())
		default:
		}
		res, err := http.Get("http://" + w.metrics + "/readyz")
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
	return w
}

// call makes one call and wants a status; 0 is a call that the app gives up.
func (w *watched) call(ctx context.Context, t *testing.T, method, address, path string, want int) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+address+path, http.NoBody)
	if err != nil {
		t.Error(err)
		return
	}
	got := 0
	if res, err := http.DefaultClient.Do(req); err == nil {
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		got = res.StatusCode
	}
	if got != want {
		t.Errorf("%s %s at %s: status %d, want %d", method, path, address, got, want)
	}
}

// now makes a call and waits for its end.
func (w *watched) now(t *testing.T, method, address, path string, want int) {
	t.Helper()
	w.calls++
	w.call(context.Background(), t, method, address, path, want)
}

// begin starts a GET call that leave abandons; wait waits for its end.
func (w *watched) begin(t *testing.T, address, path string, want int) (leave, wait func()) {
	w.calls++
	ctx, leave := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { w.call(ctx, t, http.MethodGet, address, path, want) })
	return leave, done.Wait
}

// await waits until a dependency's bulkhead runs one call and as many wait as
// wanted.
func (w *watched) await(t *testing.T, dependency string, waiting int) {
	t.Helper()
	eventually(t, fmt.Sprintf("a running and %d waiting calls of %s", waiting, dependency), func() bool {
		res, err := http.Get("http://" + w.admin + "/api/dependencies/" + dependency)
		if err != nil {
			return false
		}
		defer res.Body.Close()
		var d struct {
			Bulkhead struct {
				InUse   int `json:"in_use"`
				Waiting int
			}
		}
		return json.NewDecoder(res.Body).Decode(&d) == nil && d.Bulkhead.InUse == 1 && d.Bulkhead.Waiting == waiting
	})
}

// traffic makes calls of every fate: answered, retried, failed, abandoned,
// answered by a copy and by a static body, refused for each reason, and waiting
// for a permit.
func (w *watched) traffic(t *testing.T) {
	t.Helper()
	const get, post = http.MethodGet, http.MethodPost
	for range 3 {
		w.now(t, get, w.catalog, "/page", http.StatusOK)
		w.now(t, get, w.search, "/page", http.StatusOK)
	}
	w.now(t, get, w.catalog, "/secret", http.StatusOK)
	w.queue(t)
	leave, wait := w.begin(t, w.search, "/held", 0)
	w.await(t, "search", 0)
	leave()
	wait()

	w.sick.Store(true)
	w.now(t, post, w.catalog, "/order", http.StatusServiceUnavailable)
	w.now(t, get, w.catalog, "/page", http.StatusOK)  // a copy, after a retry
	w.now(t, get, w.catalog, "/other", http.StatusOK) // a static body; the circuit opens
	w.now(t, get, w.catalog, "/page", http.StatusOK)  // a copy, nothing was sent
	w.now(t, post, w.catalog, "/order", http.StatusServiceUnavailable)
	for range 3 {
		w.now(t, get, w.search, "/page", http.StatusServiceUnavailable)
	}
}

// queue makes calls that wait for the one permit, and are refused.
func (w *watched) queue(t *testing.T) {
	t.Helper()
	_, held := w.begin(t, w.payments, "/held", http.StatusOK)
	w.await(t, "payments", 0)
	_, waits := w.begin(t, w.payments, "/page", http.StatusOK)
	w.await(t, "payments", 1)
	w.now(t, http.MethodGet, w.payments, "/page", http.StatusServiceUnavailable) // queue_full
	w.release <- struct{}{}
	held()
	waits()
	_, held = w.begin(t, w.payments, "/held", http.StatusOK)
	w.await(t, "payments", 0)
	w.now(t, http.MethodGet, w.payments, "/page", http.StatusServiceUnavailable) // queue_timeout
	w.release <- struct{}{}
	held()
}
