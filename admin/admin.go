package admin

import (
	"context"
	"errors"
	"net/http"
	"net/http/pprof"
	"sync/atomic"
	"time"

	"sidecar/proxy"
	"sidecar/resilience/breaker"
)

// ErrUnknown is what a Supervisor says to an unknown name.
var ErrUnknown = errors.New("there is no dependency of this name")

// Supervisor runs the dependencies. Its methods are called from many
// goroutines at once.
type Supervisor interface {
	// Snapshots returns the running dependencies in the configuration's order.
	Snapshots() []proxy.Snapshot
	// Listen returns the address of a dependency's listener, or "" for an
	// unknown name.
	Listen(name string) string
	// Force takes a dependency's breaker over, or gives it back with Auto. Its
	// only error is an unknown name.
	Force(name string, f breaker.Forced) error
	// Drill begins a drill on a dependency, in the place of the one that runs.
	// Its errors are ErrUnknown, and why drills are not allowed.
	Drill(name string, order proxy.Drill) error
	// EndDrill ends the drill that runs on a dependency, if any. Its only error
	// is ErrUnknown.
	EndDrill(name string) error
	// Reload reads the configuration and applies it before it returns. An
	// error means that the running configuration stays.
	Reload(ctx context.Context) error
	// EffectiveConfig returns the running configuration as YAML with its
	// secrets masked.
	EffectiveConfig() ([]byte, error)
	// Ready reports whether every listener accepts calls; it is false while
	// draining.
	Ready() bool
}

// Statistics tells what has been measured.
type Statistics interface {
	// Counts returns a dependency's calls by outcome.
	Counts(name string) map[proxy.Outcome]uint64
	// Fallbacks returns the calls answered by a fallback, by its source, and
	// the age of the copy served last, false if none was.
	Fallbacks(name string) (served map[proxy.Source]uint64, age time.Duration, ok bool)
	// Latency returns the median and the 99th percentile of recent calls, and
	// false if there were none.
	Latency(name string) (p50, p99 time.Duration, ok bool)
	// LastReload returns when the configuration was last loaded or should have
	// been, and why it was not applied.
	LastReload() (time.Time, error)
}

// Subscribe begins to listen to events, until ctx ends. The function it
// returns waits for the next one: a name and a JSON object. Its error is the
// cause of its own or of Subscribe's context, whichever ended.
type Subscribe func(ctx context.Context) (next func(ctx context.Context) (name string, data []byte, err error))

// Fault is what is wrong at one place of a configuration file.
type Fault struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Key     string `json:"key"`
	Message string `json:"message"`
}

// Options are what the admin server is made of. All but Faults, Drain, Pprof
// and Version are required.
type Options struct {
	Supervisor Supervisor
	Statistics Statistics
	Subscribe  Subscribe
	Insight    Insight
	Metrics    http.Handler            // answers scrapes
	Faults     func(err error) []Fault // the faults that an error of Reload holds
	Drain      context.Context         // ends when the process drains; event streams end with it
	Pprof      bool                    // serve profiles
	Version    string                  // shown on the page
}

// admin answers requests. It is safe for concurrent use.
type admin struct {
	Options
	streams atomic.Int32 // event streams that are open
	pulse   pulse        // what all of them show
}

// New returns the handler of the admin listener.
func New(o Options) http.Handler {
	if o.Drain == nil {
		o.Drain = context.Background()
	}
	if o.Faults == nil {
		o.Faults = func(error) []Fault { return nil }
	}
	a := &admin{Options: o}
	a.pulse.make, a.pulse.subscribe = a.statusEvent, o.Subscribe
	return harden(onlyLoopbackHosts(onlySameOrigin(a.routes())))
}

// NewMetrics returns the handler of the metrics listener. It takes any Host.
func NewMetrics(metrics http.Handler, ready func() bool) http.Handler {
	mux := http.NewServeMux()
	machines(mux, metrics, ready)
	mux.HandleFunc("/", notFound)
	return harden(mux)
}

// routes lists every address of the admin listener.
func (a *admin) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("/{$}", get(a.page))
	for _, path := range files() {
		mux.Handle(path, get(file(path)))
	}
	mux.Handle("/api/dependencies", get(a.dependencies))
	mux.Handle("/api/dependencies/{name}", get(a.dependency))
	mux.Handle("/api/dependencies/{name}/breaker", post(a.force))
	mux.Handle("/api/dependencies/{name}/advice", get(a.advice))
	mux.Handle("/api/history", get(a.history))
	mux.Handle("/api/dependencies/{name}/drill", methods{
		http.MethodGet: a.drill, http.MethodPost: a.beginDrill, http.MethodDelete: a.endDrill,
	})
	mux.Handle("/api/config", get(a.config))
	mux.Handle("/api/reload", post(a.reload))
	mux.Handle("/api/events", get(a.events))
	machines(mux, a.Metrics, a.Supervisor.Ready)
	if a.Pprof {
		mux.Handle("/debug/pprof/", get(pprof.Index))
		mux.Handle("/debug/pprof/cmdline", get(pprof.Cmdline))
		mux.Handle("/debug/pprof/profile", get(pprof.Profile))
		mux.Handle("/debug/pprof/trace", get(pprof.Trace))
		mux.Handle("/debug/pprof/symbol", methods{http.MethodGet: pprof.Symbol, http.MethodPost: pprof.Symbol})
	}
	mux.HandleFunc("/", notFound)
	return mux
}

// machines adds what Prometheus and Kubernetes ask, on either listener.
func machines(mux *http.ServeMux, metrics http.Handler, ready func() bool) {
	mux.Handle("/metrics", get(metrics.ServeHTTP))
	mux.Handle("/livez", get(func(w http.ResponseWriter, _ *http.Request) {
		writeText(w, "alive\n")
	}))
	mux.Handle("/readyz", get(func(w http.ResponseWriter, _ *http.Request) {
		if !ready() {
			writeProblem(w, http.StatusServiceUnavailable, "a listener does not accept calls yet, or the process is draining")
			return
		}
		writeText(w, "ready\n")
	}))
}
