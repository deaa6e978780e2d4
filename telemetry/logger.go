package telemetry

import (
	"fmt"
	"io"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// logTime is RFC 3339 with milliseconds.
const logTime = "2006-01-02T15:04:05.000Z07:00"

// NewLogger returns a logger that writes each entry to w in one write, one at
// a time. level is "debug", "info", "warn" or "error"; the returned level
// changes it while running (see [SetLevel]). format is "json" or "console".
func NewLogger(level, format string, w io.Writer) (*zap.Logger, zap.AtomicLevel, error) {
	atomic := zap.NewAtomicLevel()
	if err := SetLevel(atomic, level); err != nil {
		return nil, atomic, err
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
	var encoder zapcore.Encoder
	switch format {
	case "json":
		encoder = zapcore.NewJSONEncoder(config)
	case "console":
		encoder = zapcore.NewConsoleEncoder(config)
	default:
		return nil, atomic, fmt.Errorf("unknown log format %q: use json or console", format)
	}
	out := zapcore.Lock(&plainWriter{zapcore.AddSync(w)})
	return zap.New(zapcore.NewCore(encoder, out, atomic)), atomic, nil
}

// SetLevel sets a level by its word in the configuration.
func SetLevel(level zap.AtomicLevel, word string) error {
	switch word {
	case "debug":
		level.SetLevel(zapcore.DebugLevel)
	case "info":
		level.SetLevel(zapcore.InfoLevel)
	case "warn":
		level.SetLevel(zapcore.WarnLevel)
	case "error":
		level.SetLevel(zapcore.ErrorLevel)
	default:
		return fmt.Errorf("unknown log level %q: use debug, info, warn or error", word)
	}
	return nil
}

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
