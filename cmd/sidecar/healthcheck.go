package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"sidecar/config"
)

// probeTimeout bounds a health check; a process that cannot answer in this
// time is not well.
const probeTimeout = 2 * time.Second

func healthcheckCommand() *cobra.Command {
	var live bool
	cmd := &cobra.Command{
		Use:   "healthcheck",
		Short: "Exit 0 if the sidecar of this machine is ready, 1 if not (for images without a shell)",
		Long: "Asks /readyz on the metrics listener. Its address comes from --metrics-listen, SIDECAR_METRICS_LISTEN\n" +
			"or the configuration file, in this order, and is 127.0.0.1:9901 without any.",
		Args: cobra.NoArgs,
	}
	settings := processFlags(cmd.Flags())
	cmd.Flags().BoolVar(&live, "live", false, "ask /livez instead: is the process serving at all")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		path := "/readyz"
		if live {
			path = "/livez"
		}
		return probe(cmd.Context(), "http://"+reachable(settings.listener("metrics.listen"))+path)
	}
	return cmd
}

// probe asks one health path.
func probe(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := directClient.Do(req)
	if err != nil {
		return fmt.Errorf("no answer: %w", err)
	}
	defer res.Body.Close() //nolint:errcheck // nothing was written
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s says %s", url, res.Status)
	}
	return nil
}

// directClient follows no proxy of the environment: what it asks is on this
// machine.
var directClient = &http.Client{Transport: &http.Transport{}}

// reachable turns a listen address into one to connect to: an unspecified host
// is reached on loopback.
func reachable(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// listener returns a listen address from flag, environment, file or default,
// first found first. A file that cannot be read or is faulty does not matter
// here: the running process may still be well.
func (s *processSettings) listener(key string) string {
	if value, ok := s.set(key); ok {
		return value
	}
	admin, metrics := config.Listeners(s.path())
	if key == "admin.listen" {
		return admin
	}
	return metrics
}
