package telemetry

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/zap"
)

func TestLoggerFormats(t *testing.T) {
	var out bytes.Buffer
	log, _, err := NewLogger("info", "json", &out)
	if err != nil {
		t.Fatal(err)
	}
	log.Warn("call", zap.String("dependency", "a"))
	want := regexp.MustCompile(`^\{"level":"warn","time":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z","msg":"call","dependency":"a"\}\n$`)
	if !want.MatchString(out.String()) {
		t.Errorf("json line is %q", out.String())
	}

	out.Reset()
	log, _, err = NewLogger("info", "console", &out)
	if err != nil {
		t.Fatal(err)
	}
	log.Warn("call", zap.String("dependency", "a"))
	want = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z  warn  call  \{"dependency": "a"\}\n$`)
	if !want.MatchString(out.String()) {
		t.Errorf("console line is %q", out.String())
	}
}

func TestLevelChangesWhileRunning(t *testing.T) {
	var out bytes.Buffer
	log, form, err := NewLogger("warn", "json", &out)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		level string
		lines int // of one debug, info, warn and error each
	}{{"warn", 2}, {"debug", 4}, {"error", 1}, {"info", 3}} {
		if err := form.Set(step.level, "json"); err != nil {
			t.Fatal(err)
		}
		out.Reset()
		log.Debug("")
		log.Info("")
		log.Warn("")
		log.Error("")
		if n := strings.Count(out.String(), "\n"); n != step.lines {
			t.Errorf("at %s %d lines were written, want %d", step.level, n, step.lines)
		}
	}
}

// The format changes for loggers that are in use, those with fields too; a
// refused change leaves both as they were.
func TestFormatChangesWhileRunning(t *testing.T) {
	var out bytes.Buffer
	log, form, err := NewLogger("info", "json", &out)
	if err != nil {
		t.Fatal(err)
	}
	child := log.With(zap.String("who", "child"))
	for _, step := range []struct {
		level, format string
		refused, json bool
	}{{"info", "console", false, false}, {"info", "json", false, true}, {"error", "xml", true, true}, {"loud", "console", true, true}} {
		if err := form.Set(step.level, step.format); (err != nil) != step.refused {
			t.Errorf("Set(%s, %s) = %v", step.level, step.format, err)
		}
		out.Reset()
		log.Info("a line")
		child.Info("a line")
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 2 || json.Valid([]byte(lines[0])) != step.json || json.Valid([]byte(lines[1])) != step.json || !strings.Contains(lines[1], "child") {
			t.Errorf("after Set(%s, %s) the lines are %q", step.level, step.format, lines)
		}
	}
}

func TestUnknownWordsAreRefused(t *testing.T) {
	if _, _, err := NewLogger("fatal", "json", &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "debug, info, warn or error") {
		t.Errorf("level: %v", err)
	}
	if _, _, err := NewLogger("info", "xml", &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "json or console") {
		t.Errorf("format: %v", err)
	}
	if _, err := ParseAccess("some"); err == nil || !strings.Contains(err.Error(), "off, degraded or all") {
		t.Errorf("access: %v", err)
	}
}

// hostile holds what a caller can put into a path to fool whoever reads the
// log on a terminal: escape sequences in seven and eight bits, a new line with
// a made-up entry, a bidirectional override, a character beyond the BMP, and
// bytes that are no UTF-8.
const hostile = "/a\x1b[2J\u009b31m\r\n{\"msg\":\"forged\"}\x7f\u202e\u2028\U000E0041\xff\"\\/é"

func TestLogCannotSteerATerminal(t *testing.T) {
	for _, format := range []string{"json", "console"} {
		var out bytes.Buffer
		log, _, err := NewLogger("info", format, &out)
		if err != nil {
			t.Fatal(err)
		}
		log.Info("call", zap.String("path", hostile))
		line, ended := strings.CutSuffix(out.String(), "\n")
		if !ended {
			t.Errorf("%s: the line has no end: %q", format, line)
		}
		for _, r := range line {
			if steers(r) {
				t.Errorf("%s: %U reaches the terminal in %q", format, r, line)
			}
		}
		if !strings.Contains(line, "é") {
			t.Errorf("%s: an ordinary letter was changed in %q", format, line)
		}
		var entry struct{ Path string }
		_, fields, _ := strings.Cut(line, "{")
		if err := json.Unmarshal([]byte("{"+fields), &entry); err != nil {
			t.Fatalf("%s: %v", format, err)
		}
		if want := strings.ReplaceAll(hostile, "\xff", "\uFFFD"); entry.Path != want {
			t.Errorf("%s: the path reads %q, want %q", format, entry.Path, want)
		}
	}
}

// TestMessagesCannotSteerATerminal covers the console's message, which zap
// writes as it is.
func TestMessagesCannotSteerATerminal(t *testing.T) {
	var out bytes.Buffer
	log, _, err := NewLogger("info", "console", &out)
	if err != nil {
		t.Fatal(err)
	}
	log.Info("odd \x1b[2J\u009b\xff message")
	if want := `odd \u001b[2J\u009b` + "\uFFFD message\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("line is %q, want it to end in %q", out.String(), want)
	}
}
