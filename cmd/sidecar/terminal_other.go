//go:build !unix

package main

import "os"

// terminalSize takes no file for a terminal.
func terminalSize(*os.File) (columns, rows int, ok bool) { return 0, 0, false }
