package main

import (
	"github.com/spf13/cobra"

	"sidecar/config"
)

func schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the configuration, for editors",
		Long: "Prints the JSON Schema (draft 2020-12) of the configuration: every key with its meaning,\n" +
			"default and permitted values. Editors with YAML's language server complete and check by it\n" +
			"where the configuration begins with\n\n" +
			"  # yaml-language-server: $schema=sidecar.schema.json\n\n" +
			"It tells what one value can; `sidecar validate` tells everything.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(config.Schema())
			return err
		},
	}
}
