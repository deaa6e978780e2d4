package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"sidecar/config"
)

// completionTimeout is how long a shell waits for names.
const completionTimeout = 500 * time.Millisecond

// dependencyNames completes the one argument of a command that takes the name
// of a dependency: with the names in the running sidecar and their states, or
// with those in the configuration file where none answers.
func dependencyNames(settings *processSettings) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		var names []string
		if _, said, err := (question{admin: settings.adminURL()}).ask(ctx); err == nil {
			for _, d := range said.Dependencies {
				names = append(names, cobra.CompletionWithDesc(d.Name, d.state(time.Now())))
			}
			return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
		}
		if c, err := config.Load(settings.path(), config.Process{}); err == nil {
			for i := range c.Dependencies {
				names = append(names, c.Dependencies[i].Name)
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
