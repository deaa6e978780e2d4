package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// drillFlags are the flags of an order.
type drillFlags struct {
	latency, share, length string
	status                 int
	refuse, stop           bool
}

func drillCommand() *cobra.Command {
	var f drillFlags
	cmd := &cobra.Command{
		Use:   "drill NAME (--latency 8s | --error 503 | --refuse) [--share 50%] --for 30s\n  sidecar drill NAME --stop",
		Short: "Inject a fault into a dependency for a while, to see its fallbacks work",
		Long: "Begins a fire drill on one dependency of the running sidecar, in the place of the one that runs; it needs\n" +
			"admin.drills: true. A drill ends by itself, and does not survive a restart. The admin API's address comes\n" +
			"from --admin-listen, SIDECAR_ADMIN_LISTEN or the configuration file, in this order.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("name one dependency, got %d; sidecar status lists them", len(args))
			}
			return nil
		},
	}
	settings := processFlags(cmd.Flags())
	cmd.ValidArgsFunction = dependencyNames(settings)
	cmd.Flags().StringVar(&f.latency, "latency", "", "attempts wait this long, then go on to the upstream")
	cmd.Flags().IntVar(&f.status, "error", 0, "this status, 400 to 599, is answered in the upstream's place")
	cmd.Flags().BoolVar(&f.refuse, "refuse", false, "connections are refused")
	cmd.Flags().StringVar(&f.share, "share", "100%", "how many of the attempts, picked by chance")
	cmd.Flags().StringVar(&f.length, "for", "", "how long the drill runs, at most 1h")
	cmd.Flags().BoolVar(&f.stop, "stop", false, "end the drill that runs")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		order, err := f.order(cmd.Flags())
		if err != nil {
			return misuse{err}
		}
		target := "http://" + reachable(settings.listener("admin.listen")) + "/api/dependencies/" + url.PathEscape(args[0]) + "/drill"
		if order == nil {
			if _, err := askDrill(cmd.Context(), http.MethodDelete, target, nil); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: no drill runs\n", args[0])
			return err
		}
		d, err := askDrill(cmd.Context(), http.MethodPost, target, order)
		if err != nil {
			return err
		}
		return f.tell(cmd, args[0], d)
	}
	return cmd
}

// order is the body of what the flags ask for; nil to stop. Its error says
// which flags do not go together. What their values may be is the API's to say.
func (f *drillFlags) order(flags *pflag.FlagSet) (map[string]any, error) {
	var given []string
	for _, name := range []string{"latency", "error", "refuse", "stop"} {
		if flags.Changed(name) {
			given = append(given, "--"+name)
		}
	}
	switch {
	case len(given) == 0:
		return nil, errors.New("what is to be injected? give --latency 8s, --error 503 or --refuse; --stop ends a drill")
	case len(given) > 1:
		return nil, fmt.Errorf("%s do not go together; a drill injects exactly one fault", strings.Join(given, " and "))
	case f.stop && (flags.Changed("for") || flags.Changed("share")):
		return nil, errors.New("--stop ends the drill at once; leave --for and --share out")
	case f.stop:
		return nil, nil
	case f.length == "":
		return nil, errors.New("how long is the drill to run? give --for 30s, at most 1h")
	}
	order := map[string]any{"share": f.share, "for": f.length}
	switch given[0] {
	case "--latency":
		order["latency"] = f.latency
	case "--error":
		order["error"] = f.status
	default:
		order["refuse"] = f.refuse
	}
	return order, nil
}

// runningDrill is what the admin API answers with; nil where none runs.
type runningDrill struct {
	Fault string    `json:"fault"`
	Until time.Time `json:"until"`
}

// askDrill gives an order to the admin API.
func askDrill(ctx context.Context, method, target string, order map[string]any) (*runningDrill, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	body, err := json.Marshal(order)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := directClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("is the sidecar running? %w", err)
	}
	defer res.Body.Close() //nolint:errcheck // nothing was written
	if res.StatusCode != http.StatusOK {
		return nil, refusal(res)
	}
	var d *runningDrill
	if err := json.NewDecoder(res.Body).Decode(&d); err != nil {
		return nil, fmt.Errorf("%s does not answer like a sidecar's admin listener: %w", target, err)
	}
	return d, nil
}

// refusal is what the admin API says is wrong with an order.
func refusal(res *http.Response) error {
	var problem struct{ Detail string }
	const most = 64 << 10
	if err := json.NewDecoder(io.LimitReader(res.Body, most)).Decode(&problem); err != nil || problem.Detail == "" {
		return fmt.Errorf("%s says %s", res.Request.URL, res.Status)
	}
	return errors.New(problem.Detail)
}

// tell says what is happening now and how to stop it.
func (f *drillFlags) tell(cmd *cobra.Command, name string, d *runningDrill) error {
	if d == nil {
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: the drill is over already\n", name)
		return err
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: %s on %s of the attempts for %s, until %s UTC\n"+
		"it ends by itself; to end it now: sidecar drill %s --stop%s\n",
		name, d.Fault, f.share, f.length, d.Until.UTC().Format(time.TimeOnly), quoted(name), sameAdmin(cmd.Flags()))
	return err
}

// sameAdmin repeats the flags by which the admin listener was found.
func sameAdmin(flags *pflag.FlagSet) string {
	var same strings.Builder
	for _, name := range []string{"config", "admin-listen"} {
		if f := flags.Lookup(name); f.Changed {
			fmt.Fprintf(&same, " --%s %s", name, quoted(f.Value.String()))
		}
	}
	return same.String()
}

// quoted makes one word of a text for a shell.
func quoted(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@", r)
	}
	if text != "" && !strings.ContainsFunc(text, func(r rune) bool { return !plain(r) }) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
