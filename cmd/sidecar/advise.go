package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"sidecar/advice"
)

func adviseCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "advise [NAME]",
		Short: "Say what to change, from the last quarter of an hour of the running sidecar",
		Long: "Tells what the traffic of the last quarter of an hour says about the settings of the\n" +
			"dependency NAME, or of all: faults with their evidence, and sizes that do not fit.\n" +
			"With -o yaml it prints a configuration file with the suggested values, to be merged into\n" +
			"yours. The admin API's address is found as by sidecar status.",
		Args: cobra.MaximumNArgs(1),
	}
	settings := processFlags(cmd.Flags())
	cmd.ValidArgsFunction = dependencyNames(settings)
	output := choiceFlag(cmd, "output", "o", "what is written", "text", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		q := question{admin: settings.adminURL()}
		if len(args) > 0 {
			q.name = args[0]
		}
		all, err := q.advice(cmd.Context())
		if err != nil {
			return err
		}
		write := map[string]func(io.Writer, []advised) error{"text": writeAdvice, "json": writeAdviceJSON, "yaml": writePatch}
		return write[output.value](cmd.OutOrStdout(), all)
	}
	return cmd
}

// advised is the advice on a dependency, and the permits that it has.
type advised struct {
	advice.Advice
	permits int
}

// advice fetches the advice on one dependency, or on all, in the order of the
// configuration.
func (q question) advice(ctx context.Context) ([]advised, error) {
	var known struct {
		Dependencies []struct {
			Name     string `json:"name"`
			Bulkhead struct {
				MaxConcurrent int `json:"max_concurrent"`
			} `json:"bulkhead"`
		} `json:"dependencies"`
	}
	if err := q.read(ctx, "/api/dependencies", &known); err != nil {
		return nil, err
	}
	var all []advised
	for _, d := range known.Dependencies {
		if q.name != "" && q.name != d.Name {
			continue
		}
		a := advised{permits: d.Bulkhead.MaxConcurrent}
		if err := q.read(ctx, question{name: d.Name}.path()+"/advice", &a.Advice); err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	if q.name != "" && len(all) == 0 {
		return nil, q.unknown()
	}
	return all, nil
}

// read fetches an answer of the admin API and decodes it.
func (q question) read(ctx context.Context, path string, into any) error {
	raw, err := q.fetch(ctx, path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("%s does not answer like a sidecar's admin listener: %w; is it the right address?", q.admin, err)
	}
	return nil
}

// writeAdvice writes the report. What is said of the budget that all
// dependencies share is said once.
func writeAdvice(out io.Writer, all []advised) error {
	var b bytes.Buffer
	for i := range all {
		if i > 0 {
			b.WriteByte('\n')
		}
		writeOne(&b, &all[i].Advice, len(all) > 1)
	}
	if permits, current, why := budget(all); len(all) > 1 && why != "" {
		fmt.Fprintf(&b, "\nall dependencies\n\n    %s\n      %s\n", change(sharedBudget, current, strconv.Itoa(permits)), why)
	}
	_, err := out.Write(b.Bytes())
	return err
}

// writeOne writes what is said of one dependency.
func writeOne(b *bytes.Buffer, a *advice.Advice, budgetApart bool) {
	fmt.Fprintf(b, "%s: %s\n", a.Name, seen(a))
	for _, f := range a.Findings {
		fmt.Fprintf(b, "\n  %s: %s\n    %s\n    %s\n      %s\n", f.Severity, f.Title, f.Evidence, change(f.Key, f.Current, f.Suggested), f.Why)
	}
	title := "\n  sizes for this traffic\n"
	for _, s := range a.Sizing.Suggestions {
		if budgetApart && s.Key == sharedBudget {
			continue
		}
		fmt.Fprintf(b, "%s    %s\n      %s\n", title, change(s.Key, s.Current, s.Suggested), s.Why)
		title = ""
	}
	if len(a.Findings) == 0 && title != "" {
		b.WriteString("\n  nothing to change\n")
	}
}

// sharedBudget is the key of the budget that all dependencies share.
const sharedBudget = "limits.max_concurrent"

// budget returns the permits that the dependencies will have together, and what
// is said of their budget; why is empty where nothing is.
func budget(all []advised) (permits int, current, why string) {
	for i := range all {
		permits += newPermits(&all[i])
		for _, s := range all[i].Sizing.Suggestions {
			if s.Key == sharedBudget {
				current, why = s.Current, s.Why
			}
		}
	}
	return permits, current, why
}

// seen tells what the advice stands on.
func seen(a *advice.Advice) string {
	s := fmt.Sprintf("%d calls in %s", a.Calls, minutes(a.WindowSeconds))
	if a.Calls > 0 {
		s += fmt.Sprintf(", at most %.0f a second", a.Sizing.PeakPerSecond)
	}
	if a.Sizing.P99Seconds == nil {
		return s + "; too few for sizes"
	}
	return s + ", 99 % of the answers within about " + seconds(a.Sizing.P99Seconds)
}

func minutes(seconds int) string {
	if seconds < 120 {
		return strconv.Itoa(seconds) + " s"
	}
	return strconv.Itoa((seconds+30)/60) + " minutes"
}

// change tells what to write where.
func change(key, current, suggested string) string {
	if suggested == "" {
		return key + ": " + current
	}
	return fmt.Sprintf("%s: %s -> %s", key, cmp.Or(current, "(none)"), suggested)
}

// writeAdviceJSON writes what the API said.
func writeAdviceJSON(out io.Writer, all []advised) error {
	plain := make([]advice.Advice, len(all))
	for i := range all {
		plain[i] = all[i].Advice
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(map[string]any{"advice": plain})
}
