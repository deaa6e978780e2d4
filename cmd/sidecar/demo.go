package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sidecar/config"
)

//go:embed demo.yaml
var demoConfig []byte

// demoTour is what the demo prints first.
const demoTour = `
Three dependencies, each with a listener of its own on this machine:

  catalog    http://127.0.0.1:7001   stays well
  payments   http://127.0.0.1:7002   falls back to a fixed body
  search     http://127.0.0.1:7003   falls back to its last good answer

Some calls run all the time; a line every two seconds tells how they fare.
Configuration: %s

Try, in another terminal:

  curl -i http://127.0.0.1:7003/find?q=tea                   an answer of the upstream's own
  curl -X POST 'http://127.0.0.1:7103/sick?latency=8s'       search hangs: watch the others not notice
  curl -i http://127.0.0.1:7003/find?q=tea                   a stale copy that says so
  curl -X POST http://127.0.0.1:7103/well                    probe, ramp, normal
  curl -X POST 'http://127.0.0.1:7102/sick?status=503'       payments fails; .../well on the same port mends it
  sidecar drill catalog --error 503 --for 20s                faults on purpose; catalog itself stays well
  sidecar status --watch                                     the dependencies, the sickest first
  sidecar advise                                             what to change, drawn from the traffic
  curl -s http://127.0.0.1:9901/metrics | grep ^sidecar_     what Prometheus sees
  open  http://127.0.0.1:9900/                               the status page

Ctrl-C ends it.

`

// demoRate is how many calls a second the demo makes to each dependency.
const demoRate = 20

func demoCommand() *cobra.Command {
	var length time.Duration
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "The whole product on this machine: three upstreams, a configuration and a tour",
		Args:  cobra.NoArgs,
	}
	cmd.Flags().DurationVar(&length, "for", 0, "end after this long (default: at Ctrl-C)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		// The load ends with the first signal, so that the drain finds quiet.
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		if length > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, length)
			defer cancel()
		}
		return demo(ctx, cmd.OutOrStdout())
	}
	return cmd
}

// demo runs upstreams, sidecar and load in one process.
func demo(ctx context.Context, out io.Writer) error {
	dir, err := os.MkdirTemp("", "sidecar-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	path := filepath.Join(dir, "sidecar.yaml")
	// Editors find the schema beside the file.
	text := bytes.Replace(demoConfig, []byte("../../sidecar.schema.json"), []byte("sidecar.schema.json"), 1)
	for name, data := range map[string][]byte{path: text, filepath.Join(dir, "sidecar.schema.json"): config.Schema()} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			return err
		}
	}

	names := []string{"catalog", "payments", "search"}
	var upstreams []*demoUpstream
	for i, name := range names {
		u := newDemoUpstream(name, time.Duration(5+20*i)*time.Millisecond)
		stop, err := serveUpstream(u, fmt.Sprintf("127.0.0.1:%d", 7101+i))
		if err != nil {
			return err
		}
		defer stop()
		upstreams = append(upstreams, u)
	}

	flags := pflag.NewFlagSet("demo", pflag.ContinueOnError)
	settings := processFlags(flags)
	if err := flags.Parse([]string{"--config", path}); err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	var load sync.WaitGroup
	defer load.Wait()
	started := func() {
		fmt.Fprintf(out, demoTour, path)
		for i, u := range upstreams {
			load.Go(func() { newDemoLoad(u, fmt.Sprintf("http://127.0.0.1:%d/demo", 7001+i), out).run(ctx) })
		}
	}
	err = serve(ctx, settings, started)
	end()
	return err
}

// serveUpstream starts an embedded upstream.
func serveUpstream(u *demoUpstream, address string) (stop func(), err error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("the demo's upstream %s cannot listen on %s: %w; free the port", u.name, address, err)
	}
	server := &http.Server{Handler: u, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(l) }()
	return func() { _ = server.Close() }, nil
}

// demoLoad makes a few calls a second to one dependency and tells how they
// fared.
type demoLoad struct {
	upstream *demoUpstream
	url      string
	out      io.Writer
	client   *http.Client

	mu     sync.Mutex // guards everything below
	own    int        // answers of the upstream's own
	stale  int
	static int
	errors int
	worst  time.Duration
}

func newDemoLoad(u *demoUpstream, url string, out io.Writer) *demoLoad {
	return &demoLoad{upstream: u, url: url, out: out, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: demoRate}}}
}

// run makes calls at a steady pace, whether or not earlier ones have ended,
// until ctx ends and every call has.
func (l *demoLoad) run(ctx context.Context) {
	var calls sync.WaitGroup
	defer l.client.CloseIdleConnections()
	defer calls.Wait()
	pace := time.NewTicker(time.Second / demoRate)
	defer pace.Stop()
	report := time.NewTicker(2 * time.Second)
	defer report.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pace.C:
			calls.Go(func() { l.call(ctx) })
		case <-report.C:
			l.report()
		}
	}
}

// call makes one call and counts how it was answered.
func (l *demoLoad) call(ctx context.Context) {
	start := time.Now()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.url, nil)
	if err != nil {
		return
	}
	res, err := l.client.Do(req)
	if errors.Is(err, context.Canceled) {
		return
	}
	degraded := ""
	if err == nil {
		_, err = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		degraded = res.Header.Get("Sidecar-Degraded")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.worst = max(l.worst, time.Since(start))
	switch {
	case err != nil || (degraded == "" && res.StatusCode >= http.StatusInternalServerError):
		l.errors++
	case degraded == "":
		l.own++
	case degraded[:5] == "stale":
		l.stale++
	default:
		l.static++
	}
}

// report prints and forgets the counts.
func (l *demoLoad) report() {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.out, "%s  %-8s  own %2d  stale %2d  static %2d  errors %2d   slowest %4d ms   at the upstream at once: %d\n",
		time.Now().Format(time.TimeOnly), l.upstream.name, l.own, l.stale, l.static, l.errors,
		l.worst.Milliseconds(), l.upstream.peakConcurrency())
	l.own, l.stale, l.static, l.errors, l.worst = 0, 0, 0, 0, 0
}
