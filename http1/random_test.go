//go:build unix

package http1

import (
	"bytes"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Whatever an upstream does, in whichever order, both transports see the same.
func TestRandomUpstreams(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var scripts []script
		for range rapid.IntRange(1, 3).Draw(rt, "connections") {
			scripts = append(scripts, drawScript(rt))
		}
		var calls []func() *http.Request
		for range rapid.IntRange(1, 3).Draw(rt, "calls") {
			calls = append(calls, rapid.SampledFrom(callers).Draw(rt, "caller"))
		}
		if d := same(t, scripts, calls...); d != "" {
			rt.Fatalf("-net/http +http1:\n%s", d)
		}
	})
}

// callers send what a connection takes at once: with a longer body it would be
// chance what net/http's Transport makes of an upstream that goes away.
var callers = []func() *http.Request{
	bare("GET"), bare("HEAD"), bare("POST"), known("PUT", "a body"), chunked("POST", plainly("a body")), withTrailer("a body"),
	changed(func(r *http.Request) { r.Close = true }),
}

// drawScript draws what an upstream does on a connection. It lets everything
// settle after each step: what comes at once comes in either order.
func drawScript(rt *rapid.T) (s script) {
	for range rapid.IntRange(1, 4).Draw(rt, "answers") {
		s = append(s, rapid.SampledFrom([]step{request, request, head}).Draw(rt, "reads"))
		for range rapid.IntRange(1, 3).Draw(rt, "steps") {
			switch rapid.IntRange(0, 9).Draw(rt, "step") {
			case 0, 1, 2:
				s = append(s, say(ok))
			case 3, 4, 5:
				s = append(s, say(drawAnswer(rt)))
			case 6:
				s = append(s, inPieces(drawAnswer(rt), rapid.IntRange(20, 2000).Draw(rt, "piece")))
			case 7:
				s = append(s, pause(time.Duration(rapid.IntRange(1, 9000).Draw(rt, "pause"))*137*time.Microsecond))
			case 8:
				s = append(s, rapid.SampledFrom([]step{hangUp, shutdown, reset}).Draw(rt, "end"))
			}
			s = append(s, settle)
		}
	}
	return s
}

var answerNames = slices.Sorted(maps.Keys(rawAnswers))

// drawAnswer draws an answer, or what is left of one.
func drawAnswer(rt *rapid.T) string {
	raw := rawAnswers[rapid.SampledFrom(answerNames).Draw(rt, "answer")]
	switch rapid.IntRange(0, 3).Draw(rt, "damage") {
	case 0:
		return raw[:rapid.IntRange(0, len(raw)).Draw(rt, "cut")]
	case 1:
		if raw == "" {
			return raw
		}
		damaged := []byte(raw)
		damaged[rapid.IntRange(0, min(len(raw), 100)-1).Draw(rt, "at")] = rapid.Byte().Draw(rt, "byte")
		return string(damaged)
	default:
		return raw
	}
}

// FuzzAnswer holds http1 against net/http's Transport with any bytes for an
// answer, in two packets, and any end.
func FuzzAnswer(f *testing.F) {
	for i, name := range answerNames {
		f.Add([]byte(rawAnswers[name]), uint8(i), uint16(i), uint8(i))
	}
	ends := [][]step{nil, {hangUp}, {shutdown}, {reset}, {say(ok)}}
	f.Fuzz(func(t *testing.T, raw []byte, caller uint8, cut uint16, end uint8) {
		call := callers[int(caller)%len(callers)]
		at := int(cut) % (len(raw) + 1)
		answer := func(p *peer) { say(string(raw[:at]))(p); settle(p); say(string(raw[at:]))(p) }
		scripts := twice(answer, ends[int(end)%len(ends)]...)
		want, got := play(t, theirs, scripts, call, call), play(t, ours, scripts, call, call)
		for _, s := range []session{want, got} {
			forgive(s, raw)
		}
		if d := diff(want, got); d != "" {
			t.Errorf("-net/http +http1:\n%s", d)
		}
	})
}

// forgive leaves out where the transports differ rightly. Fields that a closing
// connection's Connection field names are missing in http1's answers alone.
func forgive(s session, raw []byte) {
	_, named, _ := bytes.Cut(bytes.ToLower(raw), []byte("connection"))
	for _, r := range s.Replies {
		for name := range r.Header {
			if bytes.Contains(named, []byte(strings.ToLower(name))) && name != "Content-Length" {
				delete(r.Header, name)
			}
		}
	}
}
