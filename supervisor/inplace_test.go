package supervisor

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sidecar/config"
	"sidecar/resilience/breaker"
)

// change is what happens when a reload changes one key: what is asked of the
// running dependency answers one thing before and another after.
type change struct {
	before, after string // the dependency's keys, over the rest of its configuration
	ask           func(*place) string
	was, becomes  string
	fresh         bool // the upstream is another one: a new breaker, and none of its copies
	emptied       bool // the window has another shape: its outcomes are dropped
	renamed       bool // it is another dependency
}

// place is a dependency whose configuration changes while it works.
type place struct {
	*rig
	*testing.T
	up     *upstream
	ports  []string
	words  map[string]string // what a configuration may use
	client *http.Client
}

func newPlace(t *testing.T, c change) *place {
	p := &place{
		rig: newRig(t), T: t, up: newUpstream(t),
		client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}},
	}
	p.ports = p.rig.ports(4)
	p.words = p.up.start(t, c)
	p.words["$OTHER"] = p.ports[3]
	p.words["$PORT"] = p.ports[2][strings.LastIndex(p.ports[2], ":")+1:]
	p.words["$UPSTREAM"] = p.up.URL
	p.words["$SILENT"] = silent(t)
	return p
}

// upstream answers as the path says.
type upstream struct {
	*httptest.Server
	requests, holding atomic.Int64
	failing           atomic.Bool // /copy
	release           chan struct{}
}

func newUpstream(t *testing.T) *upstream {
	u := &upstream{release: make(chan struct{})}
	u.Server = httptest.NewUnstartedServer(http.HandlerFunc(u.answer))
	u.Config.Protocols = new(http.Protocols)
	u.Config.Protocols.SetHTTP1(true)
	u.Config.Protocols.SetUnencryptedHTTP2(true)
	u.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(u.Close)
	return u
}

func (u *upstream) answer(w http.ResponseWriter, r *http.Request) {
	u.requests.Add(1)
	if r.URL.Path != "/copy" {
		w.Header().Set("Cache-Control", "no-store")
	}
	var status int
	switch _, _ = fmt.Sscanf(r.URL.Path, "/%d", &status); {
	case status > 0:
		w.WriteHeader(status)
	case r.URL.Path == "/host":
		fmt.Fprint(w, r.Host)
	case r.URL.Path == "/protocol":
		fmt.Fprint(w, r.Proto)
	case r.URL.Path == "/client" && len(r.TLS.PeerCertificates) > 0:
		fmt.Fprint(w, r.TLS.PeerCertificates[0].Subject.CommonName)
	case r.URL.Path == "/remote":
		fmt.Fprint(w, r.RemoteAddr)
	case r.URL.Path == "/slow":
		time.Sleep(400 * time.Millisecond)
	case r.URL.Path == "/grpc":
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Grpc-Status", "5")
	case r.URL.Path == "/events":
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	case r.URL.Path == "/held":
		u.holding.Add(1)
		defer u.holding.Add(-1)
		_ = http.NewResponseController(w).Flush()
		select {
		case <-u.release:
			fmt.Fprint(w, "held")
		case <-r.Context().Done():
		}
	case r.URL.Path == "/copy" && u.failing.Load():
		w.WriteHeader(http.StatusInternalServerError)
	default:
		fmt.Fprint(w, "ok")
	}
}

// steady is what a dependency has in these tests unless the change says
// otherwise: nothing opens its circuit by chance.
const steady = `
  timeout: 5s
  breaker: {min_calls: 1000000, window: 1000, cooldown: 1h, jitter: 0, ramp: 0s, slow_call: {ratio: 0}}
  bulkhead: {max_concurrent: 20, max_waiting: 10, queue_timeout: 5s}
  retry: {budget: {min_per_second: 1000, ratio: 0}, backoff: {base: 1ms, max: 1ms}}
  fallback: [{stale: {max_age: 1h}}]
`

func (p *place) config(keys string) *config.Config {
	p.Helper()
	if !strings.HasPrefix(keys, "name:") {
		keys = "name: a, " + keys
	}
	for key, value := range map[string]string{"listen": p.ports[2], "upstream": p.up.URL} {
		if !strings.Contains(keys, key+":") {
			keys += fmt.Sprintf(", %s: %q", key, value)
		}
	}
	text := fmt.Sprintf("admin: {listen: %s}\nmetrics: {listen: %s}\nshutdown: {drain_timeout: 1s}\ndefaults:%sdependencies:\n  - {%s}\n", p.ports[0], p.ports[1], steady, keys)
	for word, value := range p.words {
		text = strings.ReplaceAll(text, word, value)
	}
	c, err := config.Parse(p.TempDir()+"/x.yaml", []byte(text), config.Process{})
	if err != nil {
		p.Fatalf("%v in:\n%s", err, text)
	}
	return c
}

// answer is what a caller gets.
type answer struct {
	status int // 0 without an answer
	header http.Header
	body   string
	took   time.Duration
}

func (p *place) call(method, path, body string, headers ...string) answer {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+p.ports[2]+path, strings.NewReader(body))
	if err != nil {
		p.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	start := time.Now()
	res, err := p.client.Do(req)
	if err != nil {
		return answer{}
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return answer{status: res.StatusCode, header: res.Header, body: string(text), took: time.Since(start)}
}

func (p *place) get1(path string, headers ...string) answer {
	return p.call(http.MethodGet, path, "", headers...)
}

// kept is what a reload must not touch.
type kept struct {
	calls, failures, copies int
	opened                  uint64
	since                   time.Time
}

func (p *place) state() kept {
	b := p.s.Snapshots()[0].Breaker
	return kept{b.Calls, b.Failures, p.s.Store().Entries, b.OpenedTotal, b.Since}
}

// changes runs one change: it is asked before, then the dependency gets a past
// (outcomes, a copy, a call in flight), the configuration changes, the past
// must still be there, and it is asked again.
func changes(t *testing.T, c change) {
	p := newPlace(t, c)
	p.apply(p.config(c.before))
	if got := c.ask(p); got != c.was {
		t.Errorf("with {%s} it says %q, want %q", c.before, got, c.was)
	}
	if p.s.Snapshots()[0].Breaker.State != breaker.Closed {
		p.force(breaker.Auto)
	}
	p.up.failing.Store(false)
	works := p.get1("/copy").status == http.StatusOK // not where a certificate is in the way
	p.get1("/500")
	held := make(chan answer, 1)
	if works {
		go func() { held <- p.get1("/held") }()
		p.await("the held call", func() bool { return p.up.holding.Load() == 1 })
	}
	before, dependency := p.state(), p.s.current.Load().dependencies[0].proxy
	p.apply(p.config(c.after))
	after, same := p.state(), p.s.current.Load().dependencies[0].proxy == dependency
	if c.emptied {
		before.calls, before.failures = 0, 0
	}
	switch {
	case c.renamed == same:
		t.Errorf("it is the same dependency: %v", same)
	case c.fresh && (after.calls != 0 || after.opened != before.opened):
		t.Errorf("with another upstream the breaker holds %+v, want nothing of %+v", after, before)
	case !c.fresh && !c.renamed && after != before:
		t.Errorf("the past became %+v, was %+v", after, before)
	}
	if works {
		close(p.up.release)
		if a := <-held; a.status != http.StatusOK || a.body != "held" {
			t.Errorf("the call in flight got %+v", a)
		}
		p.up.release = make(chan struct{})
	}
	p.force(breaker.Auto)
	if got := c.ask(p); got != c.becomes {
		t.Errorf("with {%s} it says %q, want %q", c.after, got, c.becomes)
	}
}

func (p *place) await(what string, holds func() bool) {
	p.Helper()
	for deadline := time.Now().Add(10 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			p.Fatalf("%s did not come", what)
		}
	}
}

func (p *place) force(f breaker.Forced) {
	p.Helper()
	if err := p.s.Force(p.s.Snapshots()[0].Name, f); err != nil {
		p.Fatal(err)
	}
}

// TestEveryKeyChangesInPlace: whatever key of a dependency a reload changes,
// new calls see the change, and nothing else does. A key without a case fails.
func TestEveryKeyChangesInPlace(t *testing.T) {
	var known []string
	for _, k := range config.Reference() {
		key, ok := strings.CutPrefix(k.Name, "dependencies[].")
		if !ok {
			continue // TestReload_ProcessKeys of e2e has those of the process
		}
		known = append(known, key)
		t.Run(key, func(t *testing.T) {
			c, ok := inPlace[key]
			if !ok {
				t.Fatalf("no case shows what a reload of %s does; add one", key)
			}
			t.Parallel()
			changes(t, c)
		})
	}
	for key := range inPlace {
		if !slices.Contains(known, key) {
			t.Errorf("there is no key %s", key)
		}
	}
}
