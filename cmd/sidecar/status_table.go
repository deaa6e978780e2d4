package main

import (
	"strconv"
	"strings"
	"time"
)

// column is one column of the table.
type column struct {
	title string
	value func(d *dependencyStatus) string
}

// totals are the columns of a table that is shown once: calls since the start.
func totals(now time.Time) []column {
	number := func(n uint64) string { return strconv.FormatUint(n, 10) }
	return []column{
		{"NAME", func(d *dependencyStatus) string { return d.Name }},
		{"LISTEN", func(d *dependencyStatus) string { return d.Listen }},
		{"STATE", func(d *dependencyStatus) string { return d.state(now) }},
		{"IN USE", func(d *dependencyStatus) string {
			return strconv.Itoa(d.Bulkhead.InUse) + "/" + strconv.Itoa(d.Bulkhead.Limit)
		}},
		{"WAITING", func(d *dependencyStatus) string { return strconv.Itoa(d.Bulkhead.Waiting) }},
		{"OK", func(d *dependencyStatus) string { return number(d.Requests.OK) }},
		{"FAILED", func(d *dependencyStatus) string { return number(d.Requests.Failed) }},
		{"FALLBACK", func(d *dependencyStatus) string { return number(d.Requests.Fallback) }},
		{"REJECTED", func(d *dependencyStatus) string { return number(d.Requests.Rejected) }},
		{"CANCELED", func(d *dependencyStatus) string { return number(d.Requests.Canceled) }},
		{"P50", func(d *dependencyStatus) string { return seconds(d.Latency.P50) }},
		{"P99", func(d *dependencyStatus) string { return seconds(d.Latency.P99) }},
		{"WHY", func(d *dependencyStatus) string { return d.Breaker.Reason }},
	}
}

// rates are the columns of one that is drawn again and again: calls a second
// since the table before, which was drawn that long ago.
func rates(now time.Time, before []dependencyStatus, passed time.Duration) []column {
	old := make(map[string]dependencyStatus, len(before))
	for _, d := range before {
		old[d.Name] = d
	}
	rate := func(count func(*dependencyStatus) uint64) func(*dependencyStatus) string {
		return func(d *dependencyStatus) string {
			o, ok := old[d.Name]
			if !ok {
				return "-"
			}
			return perSecond(count(d), count(&o), passed)
		}
	}
	var columns []column
	for _, c := range totals(now) {
		switch c.title {
		case "OK":
			c = column{"CALLS/S", rate((*dependencyStatus).calls)}
		case "FAILED":
			c = column{"FAILED/S", rate(func(d *dependencyStatus) uint64 { return d.Requests.Failed })}
		case "FALLBACK":
			c = column{"FALLBACK/S", rate(func(d *dependencyStatus) uint64 { return d.Requests.Fallback })}
		case "REJECTED":
			c = column{"REJECTED/S", rate(func(d *dependencyStatus) uint64 { return d.Requests.Rejected })}
		case "LISTEN", "CANCELED":
			continue
		}
		columns = append(columns, c)
	}
	return columns
}

const (
	gap       = 2  // columns between two columns
	leastWhy  = 16 // of a reason that is cut, so that it still says something
	leastName = 8  // of a name or state
)

// spared are the columns that a narrow terminal does without, the first ones
// first.
var spared = []string{
	"LISTEN", "CANCELED", "P50", "OK", "WAITING", "REJECTED", "REJECTED/S", "FAILED/S", "FAILED", "P99",
	"CALLS/S", "IN USE", "FALLBACK/S", "FALLBACK", "WHY",
}

// table writes a row for each dependency under the titles, in at most so many
// columns of the terminal; 0 = as wide as it gets. Lines end in a line feed.
func table(all []dependencyStatus, columns []column, width int, paint palette) []string {
	rows := make([][]string, len(all)+1)
	for _, c := range columns {
		rows[0] = append(rows[0], c.title)
		for i := range all {
			rows[i+1] = append(rows[i+1], shorten(c.value(&all[i]), 1<<20)) // without what moves the cursor
		}
	}
	widths := fit(rows, width)
	lines := make([]string, len(rows))
	for i, row := range rows {
		var b strings.Builder
		pad := 0
		for j, text := range row {
			if widths[j] == 0 {
				continue
			}
			b.WriteString(strings.Repeat(" ", pad))
			text = shorten(text, widths[j])
			pad = widths[j] - columnsOf(text) + gap
			switch {
			case i == 0:
				text = paint.paint(bold, text)
			case rows[0][j] == "STATE":
				text = paint.paint(all[i-1].style(), text)
			}
			b.WriteString(text)
		}
		lines[i] = strings.TrimRight(b.String(), " ")
	}
	return lines
}

// fit returns how wide each column is made, 0 for those that are left out.
func fit(rows [][]string, width int) []int {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for j, text := range row {
			widths[j] = max(widths[j], columnsOf(text))
		}
	}
	if width == 0 {
		return widths
	}
	index := make(map[string]int, len(widths))
	for j, title := range rows[0] {
		index[title] = j
	}
	why, name := index["WHY"], index["NAME"]
	excess := func() int {
		sum := -gap
		for _, w := range widths {
			if w > 0 {
				sum += w + gap
			}
		}
		return sum - width
	}
	cut := func(j, least int) {
		if over := excess(); over > 0 && widths[j] > least {
			widths[j] = max(least, widths[j]-over)
		}
	}
	for _, title := range spared {
		cut(why, leastWhy)
		if j, ok := index[title]; ok && excess() > 0 {
			widths[j] = 0
		}
	}
	state := index["STATE"]
	for _, j := range []int{name, state} {
		cut(j, leastName)
	}
	if excess() > 0 {
		widths[state] = 0
	}
	cut(name, 1)
	return widths
}

func columnsOf(s string) int { return columns(cellsOf(s)) }
