// Command sidecar runs beside an app and keeps its sick dependencies in their
// compartments. See the README for its configuration; every command explains
// itself with --help.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/spf13/cobra"

	"sidecar/config"
)

func main() {
	// net/http complains to the global logger of what upstreams do wrong, with
	// their bytes in it. The sidecar's own log tells it without them.
	log.SetOutput(io.Discard)
	os.Exit(run(os.Args[1:]))
}

// run carries out one command line and returns the exit code.
func run(args []string) int {
	root := rootCommand()
	root.SetArgs(args)
	if err := root.ExecuteContext(context.Background()); err != nil {
		complain(err)
		return exitCode(err)
	}
	return 0
}

// complain prints an error. The faults of a file stand for themselves, a line
// each, so that editors find their places.
func complain(err error) {
	if errors.Is(err, errTold) {
		return
	}
	var faults config.Faults
	if errors.As(err, &faults) {
		fmt.Fprintln(os.Stderr, faults.Error())
		return
	}
	fmt.Fprintln(os.Stderr, "sidecar: "+err.Error())
}

// rootCommand is the command line as a whole. Without a command it runs the
// proxy.
func rootCommand() *cobra.Command {
	serve := runCommand()
	root := &cobra.Command{
		Use:           "sidecar",
		Short:         "Keeps an app's sick dependencies in their compartments",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          serve.RunE,
	}
	root.Flags().AddFlagSet(serve.Flags())
	root.AddCommand(serve, demoCommand(), validateCommand(), schemaCommand(), statusCommand(), adviseCommand(), drillCommand(), healthcheckCommand(), versionCommand())
	markMisuse(root)
	return root
}
