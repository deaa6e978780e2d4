package deploy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
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
  - name: payments                      # narrow: a queue, and refusals
    listen: %[4]q
    upstream: %[6]q
    bulkhead: {max_concurrent: 1, max_waiting: 1, queue_timeout: 300ms}
  - name: search                        # observed: refuses nothing, and says what it would
    listen: %[5]q
    upstream: %[6]q
    breaker: {mode: observe, consecutive_failures: 1}
`

// watched is a sidecar, and what its app calls.
type watched struct {
	admin, metrics            string
	catalog, payments, search string
	sick                      atomic.Bool // the upstream answers 503
	calls                     int         // made until now
}

// startWatched runs a sidecar in front of an upstream that fails on cue.
func startWatched(t *testing.T) *watched {
	t.Helper()
	w := &watched{}
	upstream := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/slow":
			time.Sleep(100 * time.Millisecond)
		case "/stuck":
			time.Sleep(time.Second)
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
func (w *watched) call(t *testing.T, ctx context.Context, method, address, path string, want int) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+address+path, strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
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

// traffic makes calls of every fate: answered, retried, failed, abandoned,
// answered by a copy and by a static body, refused for each reason, and waiting
// for a permit.
func (w *watched) traffic(t *testing.T) {
	t.Helper()
	get := func(address, path string, want int) {
		t.Helper()
		w.calls++
		w.call(t, context.Background(), http.MethodGet, address, path, want)
	}
	for range 3 {
		get(w.catalog, "/page", http.StatusOK)
		get(w.search, "/page", http.StatusOK)
	}
	get(w.catalog, "/secret", http.StatusOK)
	w.queue(t)
	gone, leave := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer leave()
	w.calls++
	w.call(t, gone, http.MethodGet, w.search, "/stuck", 0)

	w.sick.Store(true)
	w.calls++
	w.call(t, context.Background(), http.MethodPost, w.catalog, "/order", http.StatusServiceUnavailable)
	get(w.catalog, "/page", http.StatusOK)  // a copy, after a retry
	get(w.catalog, "/other", http.StatusOK) // a static body; the circuit opens
	get(w.catalog, "/page", http.StatusOK)  // a copy, nothing was sent
	w.calls++
	w.call(t, context.Background(), http.MethodPost, w.catalog, "/order", http.StatusServiceUnavailable)
	for range 3 {
		get(w.search, "/page", http.StatusServiceUnavailable)
	}
}

// queue makes calls that wait for the one permit, and are refused.
func (w *watched) queue(t *testing.T) {
	t.Helper()
	var calls sync.WaitGroup
	call := func(path string, want int) {
		w.calls++
		calls.Go(func() { w.call(t, context.Background(), http.MethodGet, w.payments, path, want) })
		time.Sleep(30 * time.Millisecond)
	}
	call("/slow", http.StatusOK)
	call("/page", http.StatusOK)                 // waits
	call("/page", http.StatusServiceUnavailable) // queue_full
	calls.Wait()
	call("/stuck", http.StatusOK)
	call("/page", http.StatusServiceUnavailable) // queue_timeout
	calls.Wait()
}
