package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

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
	form := cmd.Flags().StringP("output", "o", "text", "text, json or yaml")
	settings := processFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		write := map[string]func(io.Writer, []advised) error{"text": writeAdvice, "json": writeAdviceJSON, "yaml": writePatch}[*form]
		if write == nil {
			return fmt.Errorf("unknown output %q: use text, json or yaml", *form)
		}
		all, err := askAdvice(cmd, "http://"+reachable(settings.listener("admin.listen"))+"/api/dependencies", args)
		if err != nil {
			return err
		}
		return write(cmd.OutOrStdout(), all)
	}
	return cmd
}

// advised is the advice on a dependency, and the permits that it has.
type advised struct {
	advice.Advice
	permits int
}

// askAdvice fetches the advice on the dependency that args name, or on all.
func askAdvice(cmd *cobra.Command, base string, args []string) ([]advised, error) {
	var known struct {
		Dependencies []struct {
			Name     string `json:"name"`
			Bulkhead struct {
				MaxConcurrent int `json:"max_concurrent"`
			} `json:"bulkhead"`
		} `json:"dependencies"`
	}
	if err := ask(cmd.Context(), base, &known); err != nil {
		return nil, err
	}
	var all []advised
	var names []string
	for _, d := range known.Dependencies {
		names = append(names, d.Name)
		if len(args) == 1 && args[0] != d.Name {
			continue
		}
		a := advised{permits: d.Bulkhead.MaxConcurrent}
		if err := ask(cmd.Context(), base+"/"+url.PathEscape(d.Name)+"/advice", &a.Advice); err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	if len(args) == 1 && len(all) == 0 {
		return nil, fmt.Errorf("no dependency is named %q: there are %s", args[0], strings.Join(names, ", "))
	}
	return all, nil
}

// writeAdvice writes the report.
func writeAdvice(out io.Writer, all []advised) error {
	var b bytes.Buffer
	for i, a := range all {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s: %s\n", a.Name, seen(&a.Advice))
		for _, f := range a.Findings {
			fmt.Fprintf(&b, "\n  %-7s  %s\n           %s.\n           %s\n           %s\n",
				f.Severity, f.Title, f.Evidence, change(f.Key, f.Current, f.Suggested), f.Why)
		}
		for i, s := range a.Sizing.Suggestions {
			if i == 0 {
				b.WriteString("\n  sizes\n")
			}
			fmt.Fprintf(&b, "           %s\n             %s\n", change(s.Key, s.Current, s.Suggested), s.Why)
		}
		if len(a.Findings)+len(a.Sizing.Suggestions) == 0 {
			b.WriteString("\n  nothing to change\n")
		}
	}
	_, err := out.Write(b.Bytes())
	return err
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
	return s + ", 99 % of the answers within " + seconds(a.Sizing.P99Seconds)
}

func minutes(seconds int) string {
	if seconds < 120 {
		return strconv.Itoa(seconds) + " s"
	}
	return strconv.Itoa(seconds/60) + " minutes"
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

// writePatch writes one file with the patches of all dependencies.
func writePatch(out io.Writer, all []advised) error {
	var whole yaml.Node
	permits, limited := 0, false
	for i := range all {
		a := &all[i]
		var one yaml.Node
		if yaml.Unmarshal([]byte(a.Sizing.Patch), &one) != nil || len(one.Content) == 0 || one.Content[0].Kind != yaml.MappingNode {
			return fmt.Errorf("the patch of %s cannot be read: ask with the version of sidecar that runs", a.Name)
		}
		permits += newPermits(a)
		limited = limited || value(one.Content[0], "limits") != nil
		if i == 0 {
			whole = one
			continue
		}
		merge(whole.Content[0], one.Content[0])
	}
	if len(all) > 1 && limited {
		value(value(whole.Content[0], "limits"), "max_concurrent").Value = strconv.Itoa(permits)
	}
	enc := yaml.NewEncoder(out)
	enc.SetIndent(2)
	if err := enc.Encode(&whole); err != nil {
		return err
	}
	return enc.Close()
}

// newPermits returns the permits that a dependency will have.
func newPermits(a *advised) int {
	for _, s := range a.Sizing.Suggestions {
		if n, err := strconv.Atoi(s.Suggested); err == nil && s.Key == "bulkhead.max_concurrent" {
			return n
		}
	}
	for _, f := range a.Findings {
		if n, err := strconv.Atoi(f.Suggested); err == nil && f.Key == "bulkhead.max_concurrent" {
			return n
		}
	}
	return a.permits
}

// merge adds a file's dependencies to another's, and the sections that this one
// lacks.
func merge(into, from *yaml.Node) {
	for i := 0; i < len(from.Content); i += 2 {
		key, v := from.Content[i], from.Content[i+1]
		if key.Value == "dependencies" {
			list := value(into, key.Value)
			list.Content = append(list.Content, v.Content...)
		} else if value(into, key.Value) == nil {
			into.Content = slices.Insert(into.Content, 0, key, v)
		}
	}
}

// value returns what a mapping holds at a key, nil where it holds nothing.
func value(m *yaml.Node, key string) *yaml.Node {
	for i := 0; i < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			return m.Content[i+1]
		}
	}
	return nil
}
