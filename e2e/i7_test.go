package e2e

import (
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// stand is one of the addresses behind a name.
type stand struct {
	served atomic.Int64
	http   http.Server
}

// standAt serves at an address; nil where the system has no such address.
func standAt(t *testing.T, address string) (*stand, net.Addr) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, nil
	}
	v := &stand{}
	v.http.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		v.served.Add(1)
		_, _ = io.WriteString(w, "ok")
	})
	var serving sync.WaitGroup
	serving.Go(func() { _ = v.http.Serve(l) })
	t.Cleanup(func() {
		_ = v.http.Close()
		serving.Wait()
	})
	return v, l.Addr()
}

// What happened: traffic stuck to an address that was gone until the proxy was
// restarted.
// Right: a new connection goes to whatever the name leads to now: at most one
// call fails, with retries none, and all are at the other address at once.
// ("localhost" is a name with two addresses. That traffic leaves an address
// that still answers is held by the proxy's own tests, in simulated time.)
func TestI7_PinnedToADeadAddress(t *testing.T) {
	t.Parallel()
	names, err := net.DefaultResolver.LookupHost(t.Context(), "localhost")
	if err != nil || len(names) < 2 {
		t.Skipf("localhost leads to %v (%v), not to two addresses", names, err)
	}
	four, addr := standAt(t, "127.0.0.1:0")
	if four == nil {
		t.Skip("no 127.0.0.1")
	}
	_, port, _ := net.SplitHostPort(addr.String())
	six, _ := standAt(t, "[::1]:"+port)
	if six == nil {
		t.Skip("no ::1, or its port is taken")
	}
	s := start(t, base+`
dependencies:
  - {name: a, listen: $A, upstream: "http://localhost:`+port+`", attempt_timeout: 2s, retry: {max_retries: 1, backoff: {base: 1ms, max: 1ms}, budget: {min_per_second: 20}}}
`)
	t.Cleanup(func() { _, _ = four.http.Close(), six.http.Close() })
	calls := startLoad(20, 3*time.Second, func(int) result { return s.get("A", "/") })
	time.Sleep(time.Second)
	first, second := four, six
	if six.served.Load() > 0 {
		first, second = six, four
	}
	if second.served.Load() > 0 {
		t.Fatal("both addresses were used at first")
	}
	killed := time.Now()
	_ = first.http.Close()
	all := calls.wait()
	lost := only(all, func(r result) bool { return r.status != http.StatusOK })
	if len(lost) > 1 {
		t.Errorf("%d of %d calls failed, the first: %v", len(lost), len(all), lost[0])
	}
	later := only(all, func(r result) bool { return r.sent.After(killed) })
	if n := second.served.Load(); n == 0 || int(n) < len(later)-len(lost) {
		t.Errorf("the other address saw %d of %d calls", n, len(later))
	}
	if b := s.api(t, "a").Breaker; b.State != "closed" {
		t.Errorf("the circuit is %s: %s", b.State, b.Reason)
	}
}
