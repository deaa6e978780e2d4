package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"sidecar/config"
)

const validateHelp = `Checks a configuration and names every fault with its line and key, above an
excerpt of the line. FILE may be - for standard input; files that it names are
looked for from the working folder then.

With -o json the result goes to standard output as one JSON object: file, valid,
dependencies (their number), faults (file, line, column, key, message; line and
column from 1 in characters, 0 where there is none) and warnings.

Exit code: 0 if valid, 1 if not, 2 if the command line makes no sense.`

func validateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "validate FILE",
		Short: "Check a configuration; every fault is named with its line and key",
		Long:  validateHelp,
		Args:  cobra.ExactArgs(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
		},
	}
	color := colorFlag(cmd)
	output := choiceFlag(cmd, "output", "o", "what is written", "text", "json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		v, err := validate(args[0], cmd.InOrStdin())
		if output.value == "json" {
			return v.writeJSON(cmd.OutOrStdout(), err)
		}
		if len(v.Faults) == 0 && err != nil {
			return err
		}
		return v.write(cmd.OutOrStdout(), cmd.ErrOrStderr(), color.value)
	}
	return cmd
}

// mostInput bounds what is read from standard input, in bytes; it is more than
// a configuration may have.
const mostInput = 8 << 20

// verdict is what is to be said of a configuration.
type verdict struct {
	File         string     `json:"file"`
	Valid        bool       `json:"valid"`
	Dependencies int        `json:"dependencies"`
	Faults       []oneFault `json:"faults"`
	Warnings     []string   `json:"warnings"`
	source       source
}

type oneFault struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Key     string `json:"key"`
	Message string `json:"message"`
	text    string
}

// validate checks the file of this name, or standard input for "-". The error
// says why there are neither faults nor a good configuration.
func validate(name string, in io.Reader) (verdict, error) {
	v := verdict{File: name, Faults: []oneFault{}, Warnings: []string{}}
	p := config.Process{OpenFiles: openFiles()}
	var c *config.Config
	var text []byte
	var err error
	if name == "-" {
		v.File = "<stdin>"
		if text, err = io.ReadAll(io.LimitReader(in, mostInput)); err != nil {
			return v, fmt.Errorf("read standard input: %w; name a file instead", err)
		}
		c, err = config.Parse(v.File, text, p)
	} else {
		c, err = config.Load(name, p)
	}
	var faults config.Faults
	if errors.As(err, &faults) {
		if text == nil {
			text, _ = os.ReadFile(name) // without it there are no excerpts
		}
		v.source = newSource(text)
		for _, f := range faults {
			v.Faults = append(v.Faults, oneFault{f.File, f.Line, f.Column, f.Key, f.Message, f.String()})
		}
	}
	if err != nil {
		return v, err
	}
	v.Valid, v.Dependencies = true, len(c.Dependencies)
	v.Warnings = append(v.Warnings, c.Warnings()...)
	return v, nil
}

// writeJSON writes the verdict for programs, an error as a fault of the file as
// a whole.
func (v *verdict) writeJSON(out io.Writer, err error) error {
	if err != nil && len(v.Faults) == 0 {
		v.Faults = append(v.Faults, oneFault{File: v.File, Message: err.Error()})
	}
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	if !v.Valid {
		return errTold
	}
	return nil
}

// write writes the verdict for people: that it is good to out, what is wrong to
// complaints.
func (v *verdict) write(out, complaints io.Writer, color string) error {
	paint, width := paletteFor(color, complaints), widthOf(complaints)
	for _, f := range v.Faults {
		place := f.text[:len(f.text)-len(f.Message)]
		fmt.Fprintln(complaints, paint.paint(bold, place)+paint.paint(red, f.Message))
		fmt.Fprint(complaints, v.source.excerpt(f.Line, f.Column, width, paint))
	}
	for _, w := range v.Warnings {
		fmt.Fprintln(complaints, paint.paint(yellow, "warning: ")+w)
	}
	if !v.Valid {
		return errTold
	}
	_, err := fmt.Fprintf(out, "%s: %s, %d dependencies\n", v.File, paletteFor(color, out).paint(green, "valid"), v.Dependencies)
	return err
}
