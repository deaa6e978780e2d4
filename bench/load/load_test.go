package load

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// serve returns a target whose answers a handler writes.
func serve(t *testing.T, h http.HandlerFunc) *Target {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	addr := s.Listener.Addr().String()
	return &Target{Addr: addr, Request: fmt.Appendf(nil, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", addr), Status: 200, Length: 1000}
}

func TestCallerReadsWholeAnswers(t *testing.T) {
	body := strings.Repeat("b", 1000)
	cases := map[string]struct {
		handler http.HandlerFunc
		err     string // "" = none
	}{
		"of a length": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }, ""},
		"chunked": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, body[:300])
			w.(http.Flusher).Flush()
			fmt.Fprint(w, body[300:])
		}, ""},
		"closed after it": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "close")
			fmt.Fprint(w, body)
		}, ""},
		"short": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body[1:]) }, "999 bytes, not 1000"},
		"status": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, body)
		}, "503, not 200"},
		"broken off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, body[:10])
			panic(http.ErrAbortHandler)
		}, "EOF"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			caller := NewCaller(serve(t, c.handler))
			defer caller.Close()
			for range 3 { // the connection is as good afterwards, or replaced
				err := caller.Call()
				if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
					t.Fatalf("got %v, want %q", err, c.err)
				}
			}
		})
	}
}

// A call that is due while its connection still waits for the one before
// counts from the instant at which it was due: one answer that takes 300 ms
// makes thirty calls of a connection slow, not one.
func TestOpenCountsTheWaitOfLateCalls(t *testing.T) {
	calls := 0
	target := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if calls++; calls == 10 {
			time.Sleep(300 * time.Millisecond)
		}
		fmt.Fprint(w, strings.Repeat("b", 1000))
	})
	r := Sum(Open(context.Background(), target, 1, 100, time.Second, 4)...)
	if r.Failed > 0 || r.Calls != 100 {
		t.Fatalf("%d calls, %d failed, want 100 and 0: %v", r.Calls, r.Failed, r.Err)
	}
	if p := r.Percentile(0.85); p < 100*time.Millisecond {
		t.Errorf("a share of 0.85 took at most %v, want a wait of more than 100 ms to show", p)
	}
	if p := r.Percentile(0.5); p > 100*time.Millisecond {
		t.Errorf("half took up to %v: calls after the slow one are late too", p)
	}
}

// While one stream holds all workers, the calls of the other wait for one.
func TestPoolSharesItsWorkers(t *testing.T) {
	fast := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Repeat("b", 1000)) })
	hung := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	r := Pool(context.Background(), 2, []Stream{{fast, 100}, {hung, 100}}, Phase{Length: time.Second})[0]
	if r[1].Calls != 0 || r[1].Failed < 50 {
		t.Errorf("the hung stream: %d answered and %d failed, want none and about 100", r[1].Calls, r[1].Failed)
	}
	if p := r[0].Percentile(0.5); p < 200*time.Millisecond {
		t.Errorf("half of the fast stream took up to %v, want the wait for a worker to show", p)
	}
}

// A call belongs to the phase in which it arrived, and workers keep their
// connections when the next one begins.
func TestPoolKeepsPhasesApart(t *testing.T) {
	var slow atomic.Bool
	var callers sync.Map
	target := serve(t, func(w http.ResponseWriter, r *http.Request) {
		callers.Store(r.RemoteAddr, true)
		if slow.Load() {
			time.Sleep(50 * time.Millisecond)
		}
		fmt.Fprint(w, strings.Repeat("b", 1000))
	})
	r := Pool(context.Background(), 1, []Stream{{target, 10}},
		Phase{Length: 500 * time.Millisecond}, Phase{Length: time.Second, Begin: func() { slow.Store(true) }})
	for i, want := range []int{5, 10} {
		if n := r[i][0].Calls + r[i][0].Failed; n < want-1 || n > want+1 {
			t.Errorf("phase %d: %d calls, want about %d", i, n, want)
		}
	}
	before, after := r[0][0].Percentile(0.5), r[1][0].Percentile(0.5)
	if before > 40*time.Millisecond || after < 50*time.Millisecond {
		t.Errorf("half took up to %v and then %v, want the second phase alone to be slow", before, after)
	}
	n := 0
	callers.Range(func(_, _ any) bool { n++; return true })
	if n != 1 {
		t.Errorf("%d connections for one worker", n)
	}
	sum := Sum(r[0][0], r[1][0])
	if sum.Calls != r[0][0].Calls+r[1][0].Calls || sum.Elapsed != 1500*time.Millisecond || !slices.IsSorted(sum.Latencies) {
		t.Errorf("the sum is %+v", sum)
	}
}

func TestPercentile(t *testing.T) {
	var r Result
	if p := r.Percentile(0.5); p != 0 {
		t.Errorf("without calls: %v", p)
	}
	for i := 1; i <= 1000; i++ {
		r.Latencies = append(r.Latencies, time.Duration(i))
	}
	for q, want := range map[float64]time.Duration{0: 1, 0.5: 501, 0.999: 1000, 1: 1000} {
		if p := r.Percentile(q); p != want {
			t.Errorf("percentile %g: %d, want %d", q, p, want)
		}
	}
}
