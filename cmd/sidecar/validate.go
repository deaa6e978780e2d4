package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"sidecar/config"
)

func validateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "validate FILE",
		Short: "Check a configuration; every fault is named with its line and key",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := config.Load(args[0], config.Process{OpenFiles: openFiles()})
			if err != nil {
				return err
			}
			for _, w := range c.Warnings() {
				fmt.Fprintln(cmd.ErrOrStderr(), "warning: "+w)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: valid, %d dependencies\n", args[0], len(c.Dependencies))
			return err
		},
	}
}
