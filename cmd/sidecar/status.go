package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

const statusHelp = `Shows the dependencies of the running sidecar, the sickest first, and why the
last reload failed, if it did. With NAME it shows one.

The admin API is asked. Its address comes from --admin-listen,
SIDECAR_ADMIN_LISTEN or the configuration file, in this order, and is
127.0.0.1:9900 without any.

With --watch the table is drawn anew every second until Ctrl-C, with calls per
second instead of calls; where the output is no terminal, a table follows the
other. With -o json the API's answer is printed as it is.

Exit code: 0, or 1 if the admin API cannot be reached.`

func statusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status [NAME]",
		Short: "Show the dependencies of the running sidecar as a table, the sickest first",
		Long:  statusHelp,
		Args:  cobra.MaximumNArgs(1),
	}
	settings := processFlags(cmd.Flags())
	cmd.ValidArgsFunction = dependencyNames(settings)
	follow := cmd.Flags().BoolP("watch", "w", false, "draw the table anew every second")
	output := choiceFlag(cmd, "output", "o", "what is written", "table", "json")
	color := colorFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		out := cmd.OutOrStdout()
		q := question{admin: settings.adminURL()}
		if len(args) > 0 {
			q.name = args[0]
		}
		s := &screen{out: out, paint: paletteFor(color.value, out), json: output.value == "json"}
		if !*follow {
			return s.once(cmd.Context(), q)
		}
		ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		return s.watch(ctx, q.ask)
	}
	return cmd
}

// adminURL returns where the admin API of this machine's sidecar is.
func (s *processSettings) adminURL() string { return "http://" + reachable(s.listener("admin.listen")) }

// mostAnswer bounds an answer of the admin API, in bytes.
const mostAnswer = 64 << 20

// question is what is asked of the admin API.
type question struct {
	admin string // the API's URL, without a path
	name  string // of one dependency; empty for all
}

// path returns where the answer is, as JSON.
func (q question) path() string {
	if q.name == "" {
		return "/api/dependencies"
	}
	return "/api/dependencies/" + url.PathEscape(q.name)
}

// fetch returns an answer of the admin API as it is.
func (q question) fetch(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, q.admin+path, nil)
	if err != nil {
		return nil, err
	}
	res, err := directClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("is the sidecar running? %w; start it, or name its admin address with --admin-listen", err)
	}
	defer res.Body.Close() //nolint:errcheck // nothing was written
	switch {
	case res.StatusCode == http.StatusNotFound && q.name != "":
		return nil, q.unknown()
	case res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s says %s; is it the admin address of a sidecar?", q.admin, res.Status)
	}
	return io.ReadAll(io.LimitReader(res.Body, mostAnswer))
}

// unknown complains of a name that no dependency has.
func (q question) unknown() error {
	return fmt.Errorf("there is no dependency %q; `sidecar status` lists them", q.name)
}

// ask returns the API's answer as it is, and what it says.
func (q question) ask(ctx context.Context) (raw []byte, said answer, err error) {
	path := "/api/dependencies" // which also tells of the reload
	if raw, err = q.fetch(ctx, path); err != nil {
		return nil, answer{}, err
	}
	if said, err = readAnswer(raw); err != nil {
		return nil, answer{}, fmt.Errorf("%s does not answer like a sidecar's admin listener: %w; is it the right address?", q.admin, err)
	}
	if q.name == "" {
		return raw, said, nil
	}
	if !said.only(q.name) {
		return nil, answer{}, q.unknown()
	}
	raw, err = q.fetch(ctx, q.path())
	return raw, said, err
}
