package main

import (
	"context"
	"errors"
	"log"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"sidecar/admin"
	"sidecar/config"
	"sidecar/history"
	"sidecar/supervisor"
	"sidecar/telemetry"
)

func runCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the proxy (the default)",
		Long: "Runs the proxy until SIGTERM or SIGINT, which drain it; a second one ends it at once.\n" +
			"A changed configuration takes hold by itself; SIGHUP reads it again, changed or not.\n" +
			"Every flag can also be set as SIDECAR_… in the environment.",
		Args: cobra.NoArgs,
	}
	settings := processFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return serve(cmd.Context(), settings, func() {})
	}
	return cmd
}

// sidecar is the running process: what every part of it is connected to.
type sidecar struct {
	source     *config.Source
	log        *zap.Logger
	form       *telemetry.LogForm
	telemetry  *telemetry.Telemetry
	history    *history.Recorder
	supervisor *supervisor.Supervisor
	reloading  sync.Mutex // one reload at a time
}

// serve runs the proxy until a signal or the end of ctx. ready is called once
// every listener accepts.
func serve(ctx context.Context, settings *processSettings, ready func()) error {
	// Signals first: one that comes while the process starts must not be lost.
	stop := notify(os.Interrupt, syscall.SIGTERM)
	hangup := notify(syscall.SIGHUP)
	source := settings.source()
	c, err := source.Load()
	if err != nil {
		return err
	}
	draining, drain := context.WithCancel(context.Background())
	defer drain()
	s, err := newSidecar(source, c, draining)
	if err != nil {
		return err
	}
	defer s.log.Sync() //nolint:errcheck // standard error may not support it
	if err := s.supervisor.Apply(c); err != nil {
		return err
	}
	defer s.supervisor.Close()
	s.limitMemory()
	paceCollector()
	go s.telemetry.Report(draining)
	go s.history.Run(draining)
	go source.Watch(draining, func(warning string) { s.log.Warn(warning) }, s.reloadChanged)
	s.log.Info("ready", zap.String("config", settings.path()), zap.Int("dependencies", len(c.Dependencies)),
		zap.String("admin", c.Admin.Listen), zap.String("metrics", c.Metrics.Listen))
	for _, w := range c.Warnings() {
		s.log.Warn(w)
	}
	ready()
	for {
		select {
		case <-hangup:
			_ = s.Reload(ctx) // logged and counted
			continue
		case <-stop:
		case <-ctx.Done():
		}
		drain()
		go s.endAtOnce(stop)
		return s.drain()
	}
}

func notify(signals ...os.Signal) <-chan os.Signal {
	c := make(chan os.Signal, 1)
	signal.Notify(c, signals...)
	return c
}

// newSidecar connects the parts. Nothing listens yet.
func newSidecar(source *config.Source, c *config.Config, draining context.Context) (*sidecar, error) {
	logger, form, err := telemetry.NewLogger(c.Log.Level, c.Log.Format, os.Stderr)
	if err != nil {
		return nil, err
	}
	v, r := buildVersion()
	s := &sidecar{source: source, log: logger, form: form}
	s.telemetry = telemetry.New(telemetry.Options{Log: logger, Version: v, Revision: r})
	s.history = history.New(time.Now(), s.telemetry.Readings)
	metrics := s.telemetry.Handler()
	o := admin.Options{
		Supervisor: s, Statistics: s.telemetry, Subscribe: s.telemetry.Events().Subscribe, Insight: s,
		Metrics: metrics, Faults: faults, Drain: draining, Version: v,
	}
	plain := admin.New(o)
	o.Pprof = true
	profiled := admin.New(o)
	s.supervisor = supervisor.New(supervisor.Options{
		Observer: s.telemetry,
		Added:    s.telemetry.Add,
		Removed:  s.telemetry.Remove,
		Admin: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if s.supervisor.Config().Admin.Pprof {
				profiled.ServeHTTP(w, r)
				return
			}
			plain.ServeHTTP(w, r)
		}),
		Metrics:  admin.NewMetrics(metrics, s.Ready),
		ErrorLog: zapErrorLog(logger),
		Warn:     func(text string) { logger.Warn(text) },
	})
	s.telemetry.SetSource(s.supervisor)
	return s, s.configure(c)
}

// zapErrorLog takes what net/http's servers complain of: broken handshakes and
// the like, which are the callers' doing.
func zapErrorLog(logger *zap.Logger) *log.Logger {
	l, err := zap.NewStdLogAt(logger, zap.DebugLevel)
	if err != nil {
		panic(err) // only for an unknown level
	}
	return l
}

// configure sets what the process scalars say beside the listeners.
func (s *sidecar) configure(c *config.Config) error {
	access, err := telemetry.ParseAccess(c.Log.Access)
	if err != nil {
		return err
	}
	s.telemetry.SetAccess(access)
	s.telemetry.SetReportInterval(c.Log.ReportInterval)
	return s.form.Set(c.Log.Level, c.Log.Format)
}

// Reload reads the configuration once it is not being written, and brings it
// into force, all of it or nothing.
func (s *sidecar) Reload(ctx context.Context) error {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	return s.bring(s.source.Reload(ctx))
}

// reloadChanged does the same for files that have changed by themselves, and
// nothing where they hold what they held before.
func (s *sidecar) reloadChanged() {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	if c, changed, err := s.source.Changed(); changed {
		_ = s.bring(c, err) // logged and counted
	}
}

// bring brings a configuration into force, if it could be read, and tells what
// became of it.
func (s *sidecar) bring(c *config.Config, err error) error {
	last := s.supervisor.Config()
	if err == nil {
		err = s.supervisor.Apply(c)
	}
	if err == nil {
		err = s.configure(c)
	}
	if err != nil {
		s.telemetry.ReloadFailed(time.Now(), err)
		return err
	}
	s.telemetry.ReloadSucceeded(time.Now(), telemetry.Changes(config.Compare(last, c)))
	for _, w := range c.Warnings() {
		s.log.Warn(w)
	}
	return nil
}

// endAtOnce ends the process at the second signal, however far the drain has
// come.
func (s *sidecar) endAtOnce(stop <-chan os.Signal) {
	<-stop
	s.log.Warn("ended by a second signal")
	_ = s.log.Sync()
	os.Exit(0) // asked for twice, it is no failure
}

// drain lets the calls in flight end, for at most shutdown.drain_timeout.
func (s *sidecar) drain() error {
	patience := s.supervisor.Config().Shutdown.DrainTimeout
	s.log.Info("draining", zap.Duration("at_most", patience))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s.supervisor.Drain(ctx)
	s.log.Info("drained")
	return nil
}

// faults turns an error of a reload into what the API shows.
func faults(err error) []admin.Fault {
	var all config.Faults
	if !errors.As(err, &all) {
		return nil
	}
	shown := make([]admin.Fault, len(all))
	for i, f := range all {
		shown[i] = admin.Fault{File: f.File, Line: f.Line, Key: f.Key, Message: f.Message}
	}
	return shown
}
