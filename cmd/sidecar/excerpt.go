package main

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// lineBreak ends a line as YAML counts them (YAML 1.1 §4.1.4).
var lineBreak = regexp.MustCompile("\r\n|[\r\n\u0085\u2028\u2029]")

// source is the text that faults speak of, line by line.
type source []string

// newSource takes a text apart. One in another coding than UTF-8 has no lines.
func newSource(text []byte) source {
	if !utf8.Valid(text) {
		return nil
	}
	return lineBreak.Split(string(bytes.TrimPrefix(text, []byte("\ufeff"))), -1)
}

// excerpt shows a line, and under it a caret at a column, both from 1. Without
// a column there is no caret, without the line nothing. No line is longer than
// width, and no user information of a URL is shown.
func (s source) excerpt(line, column, width int, paint palette) string {
	if line < 1 || line > len(s) {
		return ""
	}
	cells, at := show(s[line-1], column-1)
	number := fmt.Sprintf("%5d", line)
	room := max(width-len(number)-len(" | "), 20)
	cells, at = cutAround(cells, at, room)
	rule := strings.Repeat(" ", len(number)) + " | "
	text := paint.paint(faint, number+" | ") + strings.TrimRight(textOf(cells), " ") + "\n"
	if column < 1 {
		return text
	}
	return text + paint.paint(faint, rule) + strings.Repeat(" ", columns(cells[:at])) + paint.paint(red, "^") + "\n"
}

// show returns the cells of a line, secrets masked, and which of them stands
// for the character at the given index.
func show(line string, index int) (cells []cell, at int) {
	runes := []rune(line)
	hidden := secrets(line)
	at = -1
	for i, r := range runes {
		if i == index {
			at = len(cells)
		}
		if len(hidden) > 0 && i >= hidden[0].from {
			if i == hidden[0].from {
				cells = append(cells, cellsOf("xxxxx")...)
			}
			if i == index && i > hidden[0].from {
				at = len(cells) - len("xxxxx")
			}
			if i+1 == hidden[0].to {
				hidden = hidden[1:]
			}
			continue
		}
		cells = append(cells, cellOf(r))
	}
	if at < 0 {
		at = len(cells)
	}
	return cells, at
}

// cutAround leaves at most so many columns around a cell, about a third of them
// before it, and returns where it is then.
func cutAround(cells []cell, at, room int) (_ []cell, _ int) {
	if columns(cells) < room { // a caret may stand behind the last one
		return cells, at
	}
	room -= 2 * ellipsis.width
	from, to := at, min(at+1, len(cells))
	used := max(columns(cells[from:to]), 1)
	left := func(most int) {
		for from > 0 && used+cells[from-1].width <= most {
			from--
			used += cells[from].width
		}
	}
	left(room / 3)
	for to < len(cells) && used+cells[to].width <= room {
		used += cells[to].width
		to++
	}
	left(room)
	var kept []cell
	if from > 0 {
		for from < at && cells[from].width == 0 {
			from++ // an accent whose letter is gone
		}
		kept = append(kept, ellipsis)
	}
	at = len(kept) + at - from
	kept = append(kept, cells[from:to]...)
	if to < len(cells) {
		kept = append(kept, ellipsis)
	}
	return kept, at
}
