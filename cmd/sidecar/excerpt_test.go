package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// The caret stands under the character at the column, whatever is before it.
func TestExcerpt(t *testing.T) {
	long := strings.Repeat("a", 200) + "X" + strings.Repeat("b", 200)
	for name, c := range map[string]struct {
		text         string
		line, column int
		want         string
	}{
		"plain":           {"a: 1\nbb: 2\n", 2, 5, "    2 | bb: 2\n      |     ^\n"},
		"first column":    {"a: 1", 1, 1, "    1 | a: 1\n      | ^\n"},
		"behind the line": {"a: 1", 1, 9, "    1 | a: 1\n      |     ^\n"},
		"no column":       {"a: 1", 1, 0, "    1 | a: 1\n"},
		"no line":         {"a: 1", 0, 0, ""},
		"no such line":    {"a: 1", 2, 1, ""},
		"tabs":            {"a:\t\tX", 1, 5, "    1 | a:  X\n      |     ^\n"},
		"wide":            {"日本: X", 1, 5, "    1 | 日本: X\n      |       ^\n"},
		"full width":      {"ＡX", 1, 2, "    1 | ＡX\n      |   ^\n"},
		"emoji":           {"🦀X", 1, 2, "    1 | 🦀X\n      |   ^\n"},
		"accents":         {"e\u0301X", 1, 3, "    1 | e\u0301X\n      |  ^\n"},
		"escapes":         {"\x1b[2J\u202eX", 1, 6, "    1 | \ufffd[2J\ufffdX\n      |      ^\n"},
		"BOM":             {"\ufeffa: X", 1, 4, "    1 | a: X\n      |    ^\n"},
		"other breaks":    {"a\r\nb\rc\u0085d\u2028X", 5, 1, "    5 | X\n      | ^\n"},
		"other coding":    {"a\x00\xff", 1, 1, ""},
		"user":            {"{u: http://me:pw@a, t: X}", 1, 24, "    1 | {u: http://xxxxx@a, t: X}\n      |                        ^\n"},
		"query":           {"{u: http://a/?key=s, t: X}", 1, 25, "    1 | {u: http://a/?xxxxx, t: X}\n      |                         ^\n"},
		"within the user": {"u: http://me:pw@a", 1, 13, "    1 | u: http://xxxxx@a\n      |           ^\n"},
		"cut both ways":   {long, 1, 201, "    1 | …" + strings.Repeat("a", 12) + "X" + strings.Repeat("b", 26) + "…\n      |              ^\n"},
		"cut at the end":  {long, 1, 3, "    1 | " + strings.Repeat("a", 39) + "…\n      |   ^\n"},
		"cut in front":    {long, 1, 401, "    1 | …" + strings.Repeat("b", 39) + "\n      |                                        ^\n"},
	} {
		if got := newSource([]byte(c.text)).excerpt(c.line, c.column, 49, false); got != c.want {
			t.Errorf("%s: got\n%swant\n%s", name, got, c.want)
		}
	}
}

// However a line is cut, no line of an excerpt is wider than asked for, and the
// caret is under its character.
func TestExcerpt_Caret(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		letters := rapid.StringOf(rapid.SampledFrom([]rune("ab :{}日\t\u0301é🦀\x1b")))
		before, after := letters.Draw(t, "before"), letters.Draw(t, "after")
		times := rapid.IntRange(1, 20).Draw(t, "times")
		before = strings.Repeat(before, times)
		width := rapid.IntRange(30, 120).Draw(t, "width")
		got := newSource([]byte(before+"X"+after)).excerpt(1, utf8.RuneCountInString(before)+1, width, false)
		lines := strings.Split(got, "\n")
		if len(lines) != 3 {
			t.Fatalf("%d lines: %q", len(lines), got)
		}
		for _, l := range lines {
			if n := columns(cellsOf(l)); n > width {
				t.Fatalf("%d columns, want at most %d: %q", n, width, l)
			}
		}
		upTo, _, ok := strings.Cut(lines[0], "X")
		if at := strings.Index(lines[1], "^"); !ok || at != columns(cellsOf(upTo)) {
			t.Fatalf("the caret is not under the X:\n%s", got)
		}
	})
}

func TestSecrets(t *testing.T) {
	for line, want := range map[string]string{
		"upstream: http://a.test:80/b":                             "",
		"upstream: http://[::1]:8080/b":                            "",
		"  - {name: a, upstream: http://us3r:s3cret@a, timout: 1}": "us3r:s3cret",
		"  - {upstream: \"http://us3r:s3c, ret@a\", timout: 1}":    "us3r:s3c, ret",
		"upstream: http://us3r:s3c/ret@a":                          "us3r:s3c/ret",
		"upstream: http://us3r:s3c//r@et@a # x":                    "us3r:s3c//r@et",
		"upstream: http://us3r:s3cret @a":                          "us3r:s3cret ",
		"upstream: us3r:s3cret@a":                                  "us3r:s3cret",
		"upstream: &x us3r:s3 cret@a":                              "&x us3r:s3 cret",
		"upstream: &x \"http://us3r:s3 cret@a":                     "us3r:s3 cret",
		"upstream: \"http://us3r:s3c":                              "us3r:s3c",
		"    ret@a.test\"":                                         "ret",
		"- http://us3r@a":                                          "us3r",
		"[http://us3r:s3cret@a]":                                   "us3r:s3cret",
		"# http://us3r:s3cret@a":                                   "us3r:s3cret",
		"":                                                         "",
	} {
		var got string
		for _, s := range secrets(line) {
			got += string([]rune(line)[s.from:s.to])
		}
		if got != want {
			t.Errorf("secrets of %s: %q, want %q", line, got, want)
		}
	}
}

// Wherever the fault is, the password before a host is never shown.
func TestSecrets_NeverShown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		password := rapid.StringMatching(`[a-zé日:/@!%&=#? ]{0,6}S3CRET[a-zé日:/@!%&=#? ]{0,6}`).Draw(t, "password")
		frame := rapid.SampledFrom([]string{
			"upstream: $", "  - upstream: \"$\"", "{name: é, upstream: '$', timout: 1s}", "[$]", "- &a $", "# $", "up-stream:   !!str $ # b", "$",
		}).Draw(t, "frame")
		line := strings.Replace(frame, "$", rapid.SampledFrom([]string{"http://", "https://", "", "//"}).Draw(t, "scheme")+"me:"+password+"@a.test/b", 1)
		column := rapid.IntRange(0, 60).Draw(t, "column")
		if got := newSource([]byte(line)).excerpt(1, column, 100, false); strings.Contains(got, "S3CRET") {
			t.Fatalf("shown: %s", got)
		}
	})
}

func TestShorten(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"日本", 3, "日…"}, {"日本", 2, "…"}, {"ab", 0, ""}, {"", 0, ""}, {"a\tb\x1b", 9, "a b\ufffd"}} {
		if got := shorten(c.text, c.most); got != c.want {
			t.Errorf("shorten(%q, %d) = %q, want %q", c.text, c.most, got, c.want)
		}
	}
}
