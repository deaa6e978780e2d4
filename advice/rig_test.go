package advice_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"sidecar/advice"
	"sidecar/config"
	"sidecar/history"
	"sidecar/proxy"
	"sidecar/stale"
	"sidecar/supervisor"
	"sidecar/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is one dependency with all that watches it, in simulated time: calls
// go through a real proxy, telemetry counts them, the history reads that.
type world struct {
	*testing.T
	yaml   string
	config *config.Config
	d      *proxy.Dependency
	rec    *history.Recorder
	calls  sync.WaitGroup

	mu     sync.Mutex // guards everything below
	behave func(*http.Request) answer
	at     int // requests at the upstream
	random *rand.Rand
}

// answer is what the upstream does with a request.
type answer struct {
	after  time.Duration
	status int // 0 = 200
	grpc   string
}

// file is a configuration with one dependency "a", whose policy is given, and
// another that has no traffic.
func file(policy string) string {
	return `log: {access: off}
dependencies:
  - name: a
    listen: 127.0.0.1:7001
    upstream: http://user:secret@a.test
` + policy + `
  - {name: other, listen: 127.0.0.1:7002, upstream: http://b.test}
`
}

func parse(t *testing.T, text string) *config.Config {
	t.Helper()
	c, err := config.Parse("sidecar.yaml", []byte(text), config.Process{})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return c
}

// simulate runs a script of traffic and returns the advice at its end.
func simulate(t *testing.T, policy string, script func(*world)) (got advice.Advice) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, yaml: file(policy), random: rand.New(rand.NewPCG(1, 2))}
		w.config = parse(t, w.yaml)
		settings, err := supervisor.Settings(w.config.Dependencies[0])
		if err != nil {
			t.Fatal(err)
		}
		settings.Transport = w
		store := stale.NewStore(1<<20, 1<<16)
		defer store.Close()
		tele := telemetry.New(telemetry.Options{})
		tele.Add("a")
		w.d = proxy.New("a", settings, store, tele)
		defer w.d.Close()
		tele.SetSource(w)
		ctx, stop := context.WithCancel(t.Context())
		w.rec = history.New(time.Now(), tele.Readings)
		go w.rec.Run(ctx)
		time.Sleep(500 * time.Microsecond) // so that no call comes in the instant of a reading
		script(w)
		w.calls.Wait()
		stop()
		synctest.Wait()
		e, ok := w.rec.Evidence("a")
		if !ok {
			t.Fatal("no evidence")
		}
		got, ok = advice.For(w.config, "a", &e)
		if !ok {
			t.Fatal("no advice")
		}
		w.checkPatch(got.Sizing.Patch)
	})
	return got
}

// Snapshots and Store make the world a [telemetry.Source].
func (w *world) Snapshots() []proxy.Snapshot { return []proxy.Snapshot{w.d.Snapshot()} }
func (w *world) Store() stale.Snapshot       { return stale.Snapshot{} }

// upstream sets how it behaves from now on.
func (w *world) upstream(behave func(*http.Request) answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.behave = behave
}

// always answers in one way.
func always(a answer) func(*http.Request) answer { return func(*http.Request) answer { return a } }

// sometimes answers in one way with a probability, else in another.
func (w *world) sometimes(p float64, a, b answer) func(*http.Request) answer {
	return func(*http.Request) answer {
		if w.random.Float64() < p {
			return a
		}
		return b
	}
}

// RoundTrip makes the world an upstream.
func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	w.at++
	a := w.behave(r)
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		w.at--
		w.mu.Unlock()
	}()
	timer := time.NewTimer(a.after)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
		return nil, context.Cause(r.Context())
	}
	res := &http.Response{
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r, StatusCode: max(a.status, 0),
		Header: http.Header{"Content-Type": {"text/plain"}}, Body: io.NopCloser(strings.NewReader("ok")), ContentLength: 2,
	}
	if a.status == 0 {
		res.StatusCode = http.StatusOK
	}
	if a.grpc != "" {
		res.Header = http.Header{"Content-Type": {"application/grpc"}, "Grpc-Status": {a.grpc}}
	}
	return res, nil
}

// caller is how an app calls; the zero value makes a GET and waits for ever.
type caller struct {
	leaves func() time.Duration
	target string
}

// steady makes calls at a rate for some time.
func (w *world) steady(perSecond float64, length time.Duration, c caller) {
	every := time.Duration(float64(time.Second) / perSecond)
	for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(every) {
		w.calls.Go(func() { w.call(c) })
	}
}

// burst makes n calls at once.
func (w *world) burst(n int) {
	for range n {
		w.calls.Go(func() { w.call(caller{}) })
	}
}

func (w *world) call(c caller) {
	ctx, cancel := context.WithCancel(context.WithValue(w.Context(), http.ServerContextKey, &http.Server{}))
	defer cancel()
	if c.leaves != nil {
		ctx, cancel = context.WithTimeout(ctx, c.leaves())
		defer cancel()
	}
	target := c.target
	if target == "" {
		target = "/"
	}
	r := httptest.NewRequest(http.MethodGet, target, nil).WithContext(ctx)
	defer func() {
		if p := recover(); p != nil {
			if err, _ := p.(error); !errors.Is(err, http.ErrAbortHandler) {
				panic(p)
			}
		}
	}()
	w.d.ServeHTTP(httptest.NewRecorder(), r)
}

// checkPatch wants a patch that is a valid file by itself and after a merge,
// and that keeps secrets out.
func (w *world) checkPatch(patch string) {
	w.Helper()
	parse(w.T, patch)
	if strings.Contains(patch, "secret") {
		w.Errorf("the patch shows a secret:\n%s", patch)
	}
	parse(w.T, merged(w, w.yaml, patch))
}

// merged puts a patch over a file.
func merged(t rapid.TB, text, patch string) string {
	t.Helper()
	var whole, change yaml.Node
	for text, n := range map[string]*yaml.Node{text: &whole, patch: &change} {
		if err := yaml.Unmarshal([]byte(text), n); err != nil {
			t.Fatal(err)
		}
	}
	mergeInto(whole.Content[0], change.Content[0])
	out, err := yaml.Marshal(&whole)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// mergeInto puts the values of one tree over those of another; entries of lists
// of mappings meet by their place.
func mergeInto(into, from *yaml.Node) {
	for i := 0; i < len(from.Content); i += 2 {
		key, v := from.Content[i], from.Content[i+1]
		at := -1
		for j := 0; j < len(into.Content); j += 2 {
			if into.Content[j].Value == key.Value {
				at = j
			}
		}
		switch {
		case at < 0:
			into.Content = append(into.Content, key, v)
		case v.Kind == yaml.MappingNode:
			mergeInto(into.Content[at+1], v)
		case v.Kind == yaml.SequenceNode && v.Content[0].Kind == yaml.MappingNode:
			mergeInto(into.Content[at+1].Content[0], v.Content[0])
		case key.Value != "upstream":
			into.Content[at+1] = v
		}
	}
}

// kinds lists what was found.
func kinds(a *advice.Advice) []string {
	found := []string{}
	for _, f := range a.Findings {
		found = append(found, f.Kind)
	}
	return found
}
