package main

import (
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// usualWidth is how wide text is made where nobody says how wide it is shown.
const usualWidth = 100

// style is what a text looks like on a terminal that has colours (ECMA-48
// §8.3.117).
type style string

const (
	bold   style = "1"
	faint  style = "2"
	red    style = "1;31"
	green  style = "32"
	yellow style = "33"
)

// palette paints texts, or leaves them alone.
type palette bool

func (p palette) paint(s style, text string) string {
	if !p || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// paletteFor says whether to paint: as --color says, where that is "auto" on a
// terminal without NO_COLOR (https://no-color.org) in the environment.
func paletteFor(color string, out io.Writer) palette {
	switch color {
	case "always":
		return true
	case "never":
		return false
	}
	f, ok := out.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	_, _, terminal := terminalSize(f)
	return palette(terminal)
}

// widthOf returns how many columns there are to write to.
func widthOf(out io.Writer) int {
	if f, ok := out.(*os.File); ok {
		if columns, _, _ := terminalSize(f); columns > 0 {
			return columns
		}
	}
	return usualWidth
}

// choice is a flag with a few permitted values, the first of which is the
// default.
type choice struct {
	value   string
	options []string
}

// choiceFlag adds such a flag, with a shorthand or without.
func choiceFlag(cmd *cobra.Command, name, short, usage string, options ...string) *choice {
	c := &choice{options[0], options}
	cmd.Flags().VarP(c, name, short, usage)
	if err := cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(options, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // only for a flag that does not exist
	}
	return c
}

// colorFlag adds --color.
func colorFlag(cmd *cobra.Command) *choice {
	return choiceFlag(cmd, "color", "", "colours: auto, on a terminal without NO_COLOR; always; never", "auto", "always", "never")
}

// String implements [pflag.Value].
func (c *choice) String() string { return c.value }

// Type implements [pflag.Value].
func (c *choice) Type() string { return strings.Join(c.options, "|") }

// Set implements [pflag.Value].
func (c *choice) Set(s string) error {
	if !slices.Contains(c.options, s) {
		return errUnknownChoice(c.options)
	}
	c.value = s
	return nil
}

// errUnknownChoice lists the values that would do.
type errUnknownChoice []string

// Error implements error.
func (e errUnknownChoice) Error() string { return "must be one of " + strings.Join(e, ", ") }
