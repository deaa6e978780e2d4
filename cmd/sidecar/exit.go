package main

import (
	"errors"

	"github.com/spf13/cobra"
)

// The exit codes: 0, 1 where something is wrong with what a command looked at
// or did, 2 where its command line makes no sense.
const (
	exitFailed = 1
	exitMisuse = 2
)

// errTold ends a command that has said itself what is wrong.
var errTold = errors.New("told already")

// misuse is a command line that makes no sense.
type misuse struct{ error }

// Unwrap returns what is wrong with it.
func (m misuse) Unwrap() error { return m.error }

// exitCode returns the exit code for a command's error.
func exitCode(err error) int {
	var m misuse
	switch {
	case err == nil:
		return 0
	case errors.As(err, &m):
		return exitMisuse
	}
	return exitFailed
}

// markMisuse makes a command and those below it tell misuse from failure.
func markMisuse(cmd *cobra.Command) {
	cmd.SetFlagErrorFunc(misuseOf)
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error { return misuseOf(cmd, check(cmd, args)) }
	}
	for _, c := range cmd.Commands() {
		markMisuse(c)
	}
}

// misuseOf marks an error and ends it in a remedy.
func misuseOf(cmd *cobra.Command, err error) error {
	if err == nil {
		return nil
	}
	return misuse{errors.New(err.Error() + "; see `" + cmd.CommandPath() + " --help`")}
}
