package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version and revision are set by the build (-ldflags "-X main.version=…");
// without it they come from what Go recorded of the module.
var version, revision = "", ""

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, the revision it was built from, and Go's version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, r := buildVersion()
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "sidecar %s (%s) %s %s/%s\n", v, r, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

// buildVersion returns the program's version and revision, "dev" and "unknown"
// where neither the build nor Go knows.
func buildVersion() (v, r string) {
	v, r = version, revision
	info, ok := debug.ReadBuildInfo()
	if ok && v == "" && info.Main.Version != "(devel)" {
		v = info.Main.Version
	}
	if ok && r == "" {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				r = s.Value
			}
		}
	}
	if v == "" {
		v = "dev"
	}
	if r == "" {
		r = "unknown"
	}
	return v, r
}
