package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

func statusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the dependencies of the running sidecar as a table",
		Long: "Asks the admin API. Its address comes from --admin-listen, SIDECAR_ADMIN_LISTEN or the\n" +
			"configuration file, in this order, and is 127.0.0.1:9900 without any.",
		Args: cobra.NoArgs,
	}
	settings := processFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		all, err := askStatus(cmd.Context(), "http://"+reachable(settings.listener("admin.listen"))+"/api/dependencies")
		if err != nil {
			return err
		}
		return printStatus(cmd.OutOrStdout(), all)
	}
	return cmd
}

// dependencyStatus is what the table shows of the API's answer.
type dependencyStatus struct {
	Name    string `json:"name"`
	Listen  string `json:"listen"`
	Breaker struct {
		State     string     `json:"state"`
		Mode      string     `json:"mode"`
		Forced    bool       `json:"forced"`
		OpenUntil *time.Time `json:"open_until"`
		Reason    string     `json:"reason"`
	} `json:"breaker"`
	Bulkhead struct {
		Limit   int `json:"limit"`
		InUse   int `json:"in_use"`
		Waiting int `json:"waiting"`
	} `json:"bulkhead"`
	Requests struct {
		OK, Failed, Fallback, Rejected, Canceled uint64
	} `json:"requests"`
	Latency struct {
		P50 *float64 `json:"p50_seconds"`
		P99 *float64 `json:"p99_seconds"`
	} `json:"latency"`
}

// askStatus fetches the dependencies from the admin API.
func askStatus(ctx context.Context, url string) ([]dependencyStatus, error) {
	var answer struct {
		Dependencies []dependencyStatus `json:"dependencies"`
	}
	err := ask(ctx, url, &answer)
	return answer.Dependencies, err
}

// ask fetches an answer of the admin API.
func ask(ctx context.Context, url string, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := directClient.Do(req)
	if err != nil {
		return fmt.Errorf("is the sidecar running? %w", err)
	}
	defer res.Body.Close() //nolint:errcheck // nothing was written
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s says %s", url, res.Status)
	}
	if err := json.NewDecoder(res.Body).Decode(answer); err != nil {
		return fmt.Errorf("%s does not answer like a sidecar's admin listener: %w", url, err)
	}
	return nil
}

// printStatus writes the table.
func printStatus(out io.Writer, all []dependencyStatus) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tLISTEN\tSTATE\tIN USE\tWAITING\tOK\tFAILED\tFALLBACK\tREJECTED\tCANCELED\tP50\tP99\tWHY")
	for _, d := range all {
		state := d.Breaker.State
		switch {
		case d.Breaker.Forced:
			state += " (forced)"
		case d.Breaker.Mode != "enforce":
			state += " (" + d.Breaker.Mode + ")"
		case d.Breaker.OpenUntil != nil:
			state += fmt.Sprintf(" (%ds left)", max(0, int(time.Until(*d.Breaker.OpenUntil).Seconds()+1)))
		}
		r := d.Requests
		fmt.Fprintf(t, "%s\t%s\t%s\t%d/%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%s\n", d.Name, d.Listen, state,
			d.Bulkhead.InUse, d.Bulkhead.Limit, d.Bulkhead.Waiting,
			r.OK, r.Failed, r.Fallback, r.Rejected, r.Canceled,
			seconds(d.Latency.P50), seconds(d.Latency.P99), d.Breaker.Reason)
	}
	return t.Flush()
}

// seconds shows a latency, or that there was none.
func seconds(s *float64) string {
	if s == nil {
		return "-"
	}
	return time.Duration(*s * float64(time.Second)).Round(100 * time.Microsecond).String()
}
