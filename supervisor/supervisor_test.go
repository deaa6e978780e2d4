package supervisor

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sidecar/config"
	"sidecar/proxy"
	"sidecar/resilience/breaker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// deaf is an Observer that hears nothing.
type deaf struct{}

func (deaf) CallDone(proxy.Call)                       {}
func (deaf) AttemptDone(proxy.Attempt)                 {}
func (deaf) BreakerChanged(string, breaker.Transition) {}
func (deaf) ShadowChanged(string, breaker.Transition)  {}
func (deaf) DrillChanged(string, proxy.DrillChange)    {}

// rig is a supervisor with upstreams that answer with their own name.
type rig struct {
	t  *testing.T
	s  *Supervisor
	mu sync.Mutex
	// guarded by mu
	events []string
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t}
	note := func(what string) func(string) {
		return func(name string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.events = append(r.events, what+" "+name)
		}
	}
	named := func(name string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, name) })
	}
	r.s = New(Options{
		Observer: deaf{}, Added: note("added"), Removed: note("removed"),
		Admin: named("admin"), Metrics: named("metrics"), ErrorLog: log.New(io.Discard, "", 0),
	})
	t.Cleanup(r.s.Close)
	return r
}

// upstream serves its name.
func (r *rig) upstream(name string) string {
	u := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, name) }))
	r.t.Cleanup(u.Close)
	return u.URL
}

// The listeners' ports: below those that the system gives to outgoing
// connections, which would otherwise take one between its choice and its use.
const (
	firstPort = 30_000
	portCount = 2_700
)

// portsGiven counts on from a place of this process's own.
var portsGiven atomic.Int64

func init() { portsGiven.Store(int64(os.Getpid()) * 101) }

// ports returns n free addresses.
func (r *rig) ports(n int) []string {
	var all []string
	for range portCount {
		address := fmt.Sprintf("127.0.0.1:%d", firstPort+portsGiven.Add(1)%portCount)
		if l, err := new(net.ListenConfig).Listen(r.t.Context(), "tcp", address); err == nil {
			_ = l.Close()
			all = append(all, address)
		}
		if len(all) == n {
			return all
		}
	}
	r.t.Fatal("no port is free")
	return nil
}

// file parses a configuration whose process listeners are the first two ports.
func (r *rig) file(ports []string, dependencies string) *config.Config {
	r.t.Helper()
	text := fmt.Sprintf("admin: {listen: %s}\nmetrics: {listen: %s}\nshutdown: {drain_timeout: 1s}\ndependencies:\n%s", ports[0], ports[1], dependencies)
	c, err := config.Parse("test.yaml", []byte(text), config.Process{})
	if err != nil {
		r.t.Fatalf("%v in:\n%s", err, text)
	}
	return c
}

func (r *rig) apply(c *config.Config) {
	r.t.Helper()
	if err := r.s.Apply(c); err != nil {
		r.t.Fatal(err)
	}
}

// get returns what an address answers, or "refused".
func (r *rig) get(address string) string {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get("http://" + address + "/")
	if err != nil {
		return "refused"
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	return string(body)
}

func (r *rig) wants(address, want string) {
	r.t.Helper()
	if got := r.get(address); got != want {
		r.t.Errorf("%s answers %q, want %q", address, got, want)
	}
}

func dep(name, listen, upstream string, more ...string) string {
	return fmt.Sprintf("  - {name: %s, listen: %q, upstream: %q%s}\n", name, listen, upstream, strings.Join(append([]string{""}, more...), ", "))
}

func TestServesEveryListener(t *testing.T) {
	r := newRig(t)
	if r.s.Ready() {
		t.Error("ready before the first configuration")
	}
	p := r.ports(4)
	r.apply(r.file(p, dep("a", p[2], r.upstream("A"))+dep("b", p[3], r.upstream("B"))))
	for i, want := range []string{"admin", "metrics", "A", "B"} {
		r.wants(p[i], want)
	}
	if !r.s.Ready() {
		t.Error("not ready while every listener accepts")
	}
	if got, want := r.s.Listen("b"), p[3]; got != want {
		t.Errorf("Listen(b) = %q, want %q", got, want)
	}
}

// A port owned by somebody else refuses the whole change: before, the
// dependencies named earlier in the file would have been changed already.
func TestTakenPortChangesNothing(t *testing.T) {
	r := newRig(t)
	p := r.ports(4)
	r.apply(r.file(p, dep("a", p[2], r.upstream("A"))))
	foreign, err := new(net.ListenConfig).Listen(t.Context(), "tcp", p[3])
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Close()
	before := r.s.Config()
	err = r.s.Apply(r.file(p, dep("a", p[2], r.upstream("A2"))+dep("d", p[3], r.upstream("D"))))
	if err == nil || !strings.Contains(err.Error(), "dependency d") || !strings.Contains(err.Error(), p[3]) {
		t.Errorf("error = %v, want one that names the dependency and the port", err)
	}
	r.wants(p[2], "A")
	if r.s.Config() != before {
		t.Error("the refused configuration is in force")
	}
	if slices.Contains(r.events, "added d") {
		t.Error("the refused dependency was announced")
	}
}

func TestPortsSwap(t *testing.T) {
	r := newRig(t)
	p := r.ports(4)
	a, b := r.upstream("A"), r.upstream("B")
	r.apply(r.file(p, dep("a", p[2], a)+dep("b", p[3], b)))
	r.apply(r.file(p, dep("a", p[3], a)+dep("b", p[2], b)))
	r.wants(p[3], "A")
	r.wants(p[2], "B")
}

func TestRemovedDependencyRefuses(t *testing.T) {
	r := newRig(t)
	p := r.ports(4)
	a := dep("a", p[2], r.upstream("A"))
	r.apply(r.file(p, a+dep("b", p[3], r.upstream("B"))))
	r.wants(p[3], "B")
	r.apply(r.file(p, a))
	r.s.leaving.Wait()
	r.wants(p[3], "refused")
	r.wants(p[2], "A")
	if want := []string{"added a", "added b", "removed b"}; !slices.Equal(r.events, want) {
		t.Errorf("events = %v, want %v", r.events, want)
	}
	// The freed port can be taken again.
	r.apply(r.file(p, a+dep("b", p[3], r.upstream("B2"))))
	r.wants(p[3], "B2")
}

// What did not change is not touched; what changed keeps its breaker, unless
// the upstream is another.
func TestBreakerSurvives(t *testing.T) {
	r := newRig(t)
	p := r.ports(5)
	a, b, c := r.upstream("A"), r.upstream("B"), r.upstream("C")
	r.apply(r.file(p, dep("a", p[2], a)+dep("b", p[3], b)+dep("c", p[4], c)))
	for _, name := range []string{"a", "b", "c"} {
		// Opened for real, by a forced state that a reload must keep.
		if err := r.s.Force(name, breaker.ForcedOpen); err != nil {
			t.Fatal(err)
		}
	}
	r.apply(r.file(p, dep("a", p[2], a)+dep("b", p[3], b, "timeout: 3s")+dep("c", p[4], a)))
	for _, s := range r.s.Snapshots() {
		if s.Breaker.State != breaker.Open || s.Breaker.Forced != breaker.ForcedOpen || s.Breaker.OpenedTotal != 1 {
			t.Errorf("%s: %v, forced %v, opened %d times; a forced state survives a reload", s.Name, s.Breaker.State, s.Breaker.Forced, s.Breaker.OpenedTotal)
		}
	}
	if err := r.s.Force("c", breaker.Auto); err != nil {
		t.Fatal(err)
	}
	r.wants(p[4], "A")
	if err := r.s.Force("nobody", breaker.Auto); err == nil {
		t.Error("an unknown name was forced")
	}
}

func TestDrainEndsWhenQuiet(t *testing.T) {
	r := newRig(t)
	p := r.ports(3)
	r.apply(r.file(p, dep("a", p[2], r.upstream("A"))))
	start := time.Now()
	r.s.Drain(t.Context())
	if r.s.Ready() {
		t.Error("ready while draining")
	}
	if waited := time.Since(start); waited > quiet {
		t.Errorf("an idle process drained for %v", waited)
	}
	r.wants(p[2], "A") // still accepts until Close
}

// An address can widen and narrow: before, a reload from 127.0.0.1:N to
// 0.0.0.0:N was refused, since the old listener was in the way of the new one.
func TestAddressWidens(t *testing.T) {
	r := newRig(t)
	p := r.ports(3)
	wide := []string{p[0], "0.0.0.0:" + p[1][strings.LastIndex(p[1], ":")+1:], p[2]}
	a := dep("a", p[2], r.upstream("A"))
	r.apply(r.file(p, a))
	for _, ports := range [][]string{wide, p, wide} {
		r.apply(r.file(ports, a))
		r.wants(p[1], "metrics")
	}
	// Refused, it serves as before.
	beside := "127.0.0.2:" + wide[1][len("0.0.0.0:"):]
	if l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", beside); err == nil {
		l.Close()
		t.Fatal("the wide listener is not there")
	}
	r.apply(r.file(p, a))
	foreign, err := new(net.ListenConfig).Listen(t.Context(), "tcp", beside)
	if err != nil {
		t.Skip(err)
	}
	defer foreign.Close()
	if err := r.s.Apply(r.file(wide, a)); err == nil || !strings.Contains(err.Error(), "metrics cannot listen on "+wide[1]) {
		t.Errorf("error = %v, want one that names the listener", err)
	}
	r.wants(p[1], "metrics")
	r.wants(p[2], "A")
}
