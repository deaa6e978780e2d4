package telemetry

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// logTime is RFC 3339 with milliseconds.
const logTime = "2006-01-02T15:04:05.000Z07:00"

// LogForm is the level and the format of a logger. It is safe for concurrent
// use.
type LogForm struct {
	level   zap.AtomicLevel
	console atomic.Bool // else JSON
}

// Set sets both by their words in the configuration, or neither: level is
// "debug", "info", "warn" or "error", format "json" or "console". Entries
// written from then on have them.
func (f *LogForm) Set(level, format string) error {
	l, ok := logLevels[level]
	if !ok {
		return fmt.Errorf("unknown log level %q: use debug, info, warn or error", level)
	}
	if format != "json" && format != "console" {
		return fmt.Errorf("unknown log format %q: use json or console", format)
	}
	f.level.SetLevel(l)
	f.console.Store(format == "console")
	return nil
}

var logLevels = map[string]zapcore.Level{
	"debug": zapcore.DebugLevel, "info": zapcore.InfoLevel, "warn": zapcore.WarnLevel, "error": zapcore.ErrorLevel,
}

// NewLogger returns a logger that writes each entry to w in one write, one at
// a time, and its form, which can be changed while it is used.
func NewLogger(level, format string, w io.Writer) (*zap.Logger, *LogForm, error) {
	form := &LogForm{level: zap.NewAtomicLevel()}
	if err := form.Set(level, format); err != nil {
		return nil, nil, err
	}
	config := zapcore.EncoderConfig{
		TimeKey:          "time",
		LevelKey:         "level",
		MessageKey:       "msg",
		LineEnding:       zapcore.DefaultLineEnding,
		EncodeLevel:      zapcore.LowercaseLevelEncoder,
		EncodeTime:       encodeTime,
		EncodeDuration:   zapcore.SecondsDurationEncoder,
		ConsoleSeparator: "  ",
	}
	out := zapcore.Lock(&plainWriter{zapcore.AddSync(w)})
	return zap.New(formedCore{
		form:    form,
		json:    zapcore.NewCore(zapcore.NewJSONEncoder(config), out, form.level),
		console: zapcore.NewCore(zapcore.NewConsoleEncoder(config), out, form.level),
	}), form, nil
}

// formedCore is a [zapcore.Core] that writes each entry in the form of that
// moment.
type formedCore struct {
	form          *LogForm
	json, console zapcore.Core
}

func (c formedCore) now() zapcore.Core {
	if c.form.console.Load() {
		return c.console
	}
	return c.json
}

func (c formedCore) Enabled(l zapcore.Level) bool { return c.form.level.Enabled(l) }

func (c formedCore) With(fields []zapcore.Field) zapcore.Core {
	return formedCore{c.form, c.json.With(fields), c.console.With(fields)}
}

func (c formedCore) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return checked.AddCore(e, c)
	}
	return checked
}

func (c formedCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	return c.now().Write(e, fields)
}

func (c formedCore) Sync() error { return c.now().Sync() }

// encodeTime writes a time in UTC.
func encodeTime(t time.Time, enc zapcore.PrimitiveArrayEncoder) {
	type layouter interface {
		AppendTimeLayout(t time.Time, layout string)
	}
	if l, ok := enc.(layouter); ok {
		l.AppendTimeLayout(t.UTC(), logTime)
		return
	}
	enc.AppendString(t.UTC().Format(logTime))
}

// plainWriter keeps what steers a terminal out of the log. A caller chooses the
// bytes of a path, and whoever reads the log may do so on a terminal. In JSON
// such characters can only stand within strings, where the escape is right.
type plainWriter struct{ zapcore.WriteSyncer }

// Write writes p with each steering character as \uXXXX.
func (w *plainWriter) Write(p []byte) (int, error) {
	if plain(p) {
		return w.WriteSyncer.Write(p)
	}
	if _, err := w.WriteSyncer.Write(escape(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// plain reports whether p is ASCII without steering characters: by far the
// most lines are.
func plain(p []byte) bool {
	for _, c := range p {
		if c >= utf8.RuneSelf || c < ' ' && c != '\n' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// escape returns p with each steering character as \uXXXX. Bytes that are no
// UTF-8 become U+FFFD.
func escape(p []byte) []byte {
	out := make([]byte, 0, len(p)+16)
	for len(p) > 0 {
		r, size := utf8.DecodeRune(p)
		p = p[size:]
		switch {
		case r == '\n' || r == '\t' || !steers(r):
			out = utf8.AppendRune(out, r)
		case r > 0xFFFF:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}

// steers reports whether a character can change how a terminal shows others:
// controls, invisible formatting such as the bidirectional overrides, and the
// separators of lines and paragraphs.
func steers(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}
