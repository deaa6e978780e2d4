package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

const (
	// redrawEvery is how often --watch asks and draws.
	redrawEvery = time.Second
	// mostReasons bounds the lines that tell why a reload failed.
	mostReasons = 3
)

// screen shows answers of the admin API, once or again and again.
type screen struct {
	out   io.Writer
	paint palette
	json  bool // the answer as it is
}

// size returns the columns and rows to draw in, 0 for as many as it takes.
func (s *screen) size() (width, height int, terminal bool) {
	f, ok := s.out.(*os.File)
	if !ok {
		return 0, 0, false
	}
	return terminalSize(f)
}

// once asks and shows the answer.
func (s *screen) once(ctx context.Context, q question) error {
	raw, said, err := q.ask(ctx)
	if err != nil {
		return err
	}
	if s.json {
		_, err = s.out.Write(raw)
		return err
	}
	width, _, _ := s.size()
	now := time.Now()
	lines := append(table(said.Dependencies, totals(now), width, s.paint), s.reloadLines(&said, width)...)
	_, err = io.WriteString(s.out, strings.Join(lines, "\n")+"\n")
	return err
}

// reloadLines tell why the last reload failed; none if it did not.
func (s *screen) reloadLines(a *answer, width int) []string {
	if a.Reload.Error == "" {
		return nil
	}
	reasons := strings.Split(strings.TrimSpace(a.Reload.Error), "\n")
	lines := []string{"", "The last reload, at " + a.Reload.At.Local().Format(time.DateTime) + ", failed; what ran before runs on:"}
	for i, r := range reasons {
		if i == mostReasons && len(reasons) > mostReasons+1 {
			lines = append(lines, fmt.Sprintf("… and %d more; `sidecar validate FILE` shows them", len(reasons)-i))
			break
		}
		lines = append(lines, r)
	}
	for i, l := range lines {
		if width > 0 {
			l = shorten(l, width)
		}
		lines[i] = s.paint.paint(red, l)
	}
	return lines
}

// watch asks and draws every second until ctx ends. The first question must be
// answered; where a later one is not, the answer before stays, with the reason,
// and it is asked again. A program that reads JSON gets the error instead.
func (s *screen) watch(ctx context.Context, ask func(context.Context) ([]byte, answer, error)) error {
	raw, said, failed := ask(ctx)
	if failed != nil {
		return failed
	}
	_, _, terminal := s.size()
	terminal = terminal && !s.json
	if terminal {
		// Another screen, without cursor and without wrapping; then the old one.
		fmt.Fprint(s.out, "\x1b[?1049h\x1b[?25l\x1b[?7l")
		defer fmt.Fprint(s.out, "\x1b[?7h\x1b[?25h\x1b[?1049l")
	}
	tick := time.NewTicker(redrawEvery)
	defer tick.Stop()
	var before answer
	var asked time.Time // when before was the answer
	for {
		now := time.Now()
		if err := s.draw(raw, s.frame(said, before, now, asked, failed), terminal); err != nil {
			return err
		}
		if failed == nil {
			before, asked = said, now
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		var next []byte
		var latest answer
		next, latest, failed = ask(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case failed == nil:
			raw, said = next, latest
		case s.json:
			return failed
		}
	}
}

// frame returns the lines of one drawing: of the last answer, and of the error
// that came instead of a newer one.
func (s *screen) frame(said, before answer, now, asked time.Time, failed error) []string {
	width, height, _ := s.size()
	head := []string{shorten("sidecar status at "+now.Format(time.TimeOnly)+", every second; Ctrl-C ends it", cmp.Or(width, 1<<20)), ""}
	if failed != nil {
		text := shorten("no answer, this is from "+asked.Format(time.TimeOnly)+": "+failed.Error(), cmp.Or(width, 1<<20))
		head[1] = s.paint.paint(red, text)
	}
	tail := s.reloadLines(&said, width)
	if failed != nil {
		before = answer{} // nothing is known of the present
	}
	rows := table(said.Dependencies, rates(now, before.Dependencies, now.Sub(asked)), width, s.paint)
	if room := height - len(head) - len(tail); height > 0 && len(rows) > room {
		kept := max(room-1, 1)
		rows = append(rows[:kept], s.paint.paint(faint, fmt.Sprintf("… and %d more", len(rows)-kept)))
	}
	lines := append(append(head, rows...), tail...)
	if height > 0 && len(lines) > height {
		lines = lines[:height]
	}
	return lines
}

// draw shows one frame: over the one before on a terminal, else after it.
func (s *screen) draw(raw []byte, lines []string, terminal bool) error {
	var out bytes.Buffer
	switch {
	case s.json:
		out.Write(bytes.TrimRight(raw, "\n"))
		out.WriteByte('\n')
	case terminal:
		out.WriteString("\x1b[H" + strings.Join(lines, "\x1b[K\n") + "\x1b[K\x1b[J")
	default:
		out.WriteString(strings.Join(lines, "\n") + "\n\n")
	}
	_, err := s.out.Write(out.Bytes())
	return err
}
