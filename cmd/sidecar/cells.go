package main

import (
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

// cell is one character as a terminal shows it.
type cell struct {
	text  string
	width int // in columns
}

// cellOf shows a character: a tab as a space, and what would move the cursor or
// turn the text around as a replacement.
func cellOf(r rune) cell {
	switch {
	case r == '\t' || r == '\u00a0':
		return cell{" ", 1}
	case unicode.In(r, unicode.Mn, unicode.Me):
		return cell{string(r), 0}
	case !unicode.IsPrint(r) && !unicode.Is(unicode.Zs, r):
		return cell{"\ufffd", 1}
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return cell{string(r), 2}
	}
	return cell{string(r), 1}
}

func cellsOf(s string) []cell {
	cells := make([]cell, 0, len(s))
	for _, r := range s {
		cells = append(cells, cellOf(r))
	}
	return cells
}

// columns adds up widths.
func columns(cells []cell) int {
	n := 0
	for _, c := range cells {
		n += c.width
	}
	return n
}

func textOf(cells []cell) string {
	var b strings.Builder
	for _, c := range cells {
		b.WriteString(c.text)
	}
	return b.String()
}

// ellipsis stands for what was cut off.
var ellipsis = cell{"…", 1}

// shorten returns at most so many columns of a text, cut at the end.
func shorten(s string, most int) string {
	cells := cellsOf(s)
	if columns(cells) <= most {
		return textOf(cells)
	}
	if most < 1 {
		return ""
	}
	n := 0
	for used := cells[0].width; used < most; used += cells[n].width {
		n++
	}
	return textOf(append(cells[:n:n], ellipsis))
}
