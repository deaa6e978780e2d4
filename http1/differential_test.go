//go:build unix

package http1

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// same plays calls to both transports and reports what differs.
func same(t *testing.T, scripts []script, calls ...func() *http.Request) string {
	t.Helper()
	return diff(play(t, theirs, scripts, calls...), play(t, ours, scripts, calls...))
}

func diff(want, got session) string { return cmp.Diff(want, got, cmpopts.EquateEmpty()) }

// Every answer, to every kind of request, with whatever the upstream does after
// it, is to http1 what it is to net/http's Transport: the answer itself, how
// long it took, and whether the connection was used again.
func TestAnswersAreThoseOfNetHTTP(t *testing.T) {
	requests := map[string]func() *http.Request{
		"GET": bare("GET"), "HEAD": bare("HEAD"), "POST": known("POST", "a body"),
	}
	ends := map[string][]step{
		"": nil, "closed": {hangUp}, "shut down": {shutdown}, "reset": {reset}, "more": {say("more")},
		"timed out": {say("HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n"), hangUp},
	}
	for answer, raw := range rawAnswers {
		for method, r := range requests {
			for end, then := range ends {
				if (method != "GET" || raced) && end != "" && (end != "closed" || raced) {
					continue
				}
				if d := same(t, twice(say(raw), then...), r, r); d != "" {
					t.Errorf("%s, %s, %s (-net/http +http1):\n%s", method, answer, end, d)
				}
			}
		}
	}
}

// How an answer is cut into packets makes no difference.
func TestAnswersInPieces(t *testing.T) {
	for answer, raw := range rawAnswers {
		if len(raw) > 200 || raced && len(raw) > 60 {
			continue
		}
		whole := play(t, ours, twice(say(raw), hangUp), bare("GET"))
		whole.Replies[0].Took = 0
		for at := range len(raw) {
			cut := play(t, ours, twice(func(p *peer) { say(raw[:at])(p); settle(p); say(raw[at:])(p) }, hangUp), bare("GET"))
			cut.Replies[0].Took = 0
			if d := diff(whole, cut); d != "" {
				t.Errorf("%s, cut at %d (-whole +cut):\n%s", answer, at, d)
			}
		}
	}
}
