package proxy

import (
	"math"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// What a caller says of its patience, and what of it can be read.
func TestPatience(t *testing.T) {
	grpc := "application/grpc"
	for _, c := range []struct {
		ms, timeout, kind string
		want              time.Duration
		said              bool
	}{
		{"", "", "", 0, false},
		{"0", "", "", 0, true},
		{"1500", "", "", 1500 * time.Millisecond, true},
		{"-1", "", "", 0, false},
		{"+1", "", "", 0, false},
		{"1.5", "", "", 0, false},
		{" 5", "", "", 0, false},
		{"1s", "", "", 0, false},
		{"99999999999999999999", "", "", 0, false},
		{"1099511627775", "", "", 1099511627775 * time.Millisecond, true},
		{"", "1S", "text/plain", 0, false}, // gRPC's header, in no gRPC call
		{"", "1S", grpc, time.Second, true},
		{"", "1S", grpc + "+json", time.Second, true},
		{"", "1S", "application/grpc-web", 0, false},
		{"", "0n", grpc, 0, true},
		{"", "1H", grpc, time.Hour, true},
		{"", "2M", grpc, 2 * time.Minute, true},
		{"", "3m", grpc, 3 * time.Millisecond, true},
		{"", "4u", grpc, 4 * time.Microsecond, true},
		{"", "5n", grpc, 5, true},
		{"", "99999999H", grpc, 290 * 365 * 24 * time.Hour, true},
		{"", "123456789S", grpc, 0, false},
		{"", "S", grpc, 0, false},
		{"", "1", grpc, 0, false},
		{"", "-1S", grpc, 0, false},
		{"", "1s", grpc, 0, false},
		{"500", "1S", grpc, 500 * time.Millisecond, true},
		{"5000", "1S", grpc, time.Second, true},
		{"x", "1S", grpc, time.Second, true},
		{"500", "x", grpc, 500 * time.Millisecond, true},
	} {
		r := &http.Request{Header: http.Header{}}
		for name, value := range map[string]string{timeoutHeader: c.ms, "Grpc-Timeout": c.timeout, "Content-Type": c.kind} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		if d, said := patience(r); d != c.want || said != c.said {
			t.Errorf("%+v: got %v, %v", c, d, said)
		}
	}
}

// A grpc-timeout that is written can be read, promises no more than there is,
// and loses less than one part in a hundred thousand.
func TestGRPCTimeoutRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(math.MinInt64, math.MaxInt64).Draw(t, "d"))
		if rapid.Bool().Draw(t, "small") {
			d %= time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "within"))
		}
		text := formatGRPCTimeout(d)
		got, ok := parseGRPCTimeout(text)
		want := max(0, d)
		const longest = 290 * 365 * 24 * time.Hour
		if want > longest {
			want = min(want, got) // nobody will wait to see
		}
		if !ok || got > want || want-got > want/100_000 {
			t.Fatalf("%v (%d ns) is written %q and read as %v, %v", d, d, text, got, ok)
		}
	})
}

// Whatever the header holds, reading it gives a time that a timer can take.
func TestGRPCTimeoutIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[0-9+\-_ .x]{0,10}[HMSmuns]?`).Draw(t, "text")
		if d, ok := parseGRPCTimeout(text); d < 0 || !ok && d != 0 {
			t.Fatalf("%q is read as %v, %v", text, d, ok)
		}
	})
}

// patient is a caller that waits so long.
func patient(ms string) caller { return caller{header: http.Header{timeoutHeader: {ms}}} }

// The caller's deadline cuts the call, is passed on less what has been spent,
// and says nothing of the upstream.
func TestCallersDeadline(t *testing.T) {
	late := problemBody(504, "The deadline that came with the request passed.", ReasonDeadline)
	bubble(t, noTries, func(r *rig) {
		r.up.will(reply{after: forever})
		r.call(patient("700")).want(t, 504, late, ms(700))
		if c := r.lastCall(); c.Outcome != OutcomeFailed || c.Reason != ReasonDeadline {
			r.Errorf("heard %s %s", c.Outcome, c.Reason)
		}
		if got := r.up.request(0).header.Get(timeoutHeader); got != "700" {
			r.Errorf("the upstream was told %s", got)
		}
		r.call(patient("0")).want(t, 504, late, 0)
		r.wantEvidence(nothing)
		// Longer than timeout, it changes nothing but what is passed on.
		r.call(patient("9000")).want(t, 504, problemBody(504, "The dependency did not answer in time.", ReasonTimeout), 2*time.Second)
		r.wantEvidence(failure)
	})
	bubble(t, both(noTries, timeouts(0, 0)), func(r *rig) {
		r.up.will(reply{after: forever})
		r.call(patient("0")).want(t, 504, late, 0)
		r.call(patient("3600000")).want(t, 504, late, time.Hour)
	})
}

// Waiting, earlier attempts and backoff are spent of it.
func TestDeadlineIsSpent(t *testing.T) {
	bubble(t, both(retries(1), func(s *Settings) { s.Bulkhead.MaxConcurrent = 1 }), func(r *rig) {
		r.up.will(reply{after: ms(200)}, reply{after: ms(100), status: 503}, reply{})
		r.start(caller{})
		synctest.Wait()
		r.call(patient("900")).want(t, 200, "", ms(300))
		for n, want := range map[int]string{1: "700", 2: "600"} {
			if got := r.up.request(n).header.Get(timeoutHeader); got != want {
				r.Errorf("attempt %d was told %s, want %s", n, got, want)
			}
		}
	})
	bubble(t, nil, func(r *rig) {
		r.call(caller{header: http.Header{timeoutHeader: {"soon"}}})
		r.call(caller{})
		if got := r.up.request(0).header.Get(timeoutHeader); got != "soon" {
			r.Errorf("what cannot be read became %q", got)
		}
		if got, ok := r.up.request(1).header[timeoutHeader]; ok {
			r.Errorf("%q was invented", got)
		}
	})
}

// A stream leaves timeout behind, but not its caller's deadline.
func TestStreamKeepsCallersDeadline(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		r.up.will(reply{header: http.Header{"Content-Type": {"text/event-stream"}}, length: -1, body: []step{{text: "1"}, {after: ms(4900), text: "2"}, {after: ms(200), text: "3"}}})
		got := r.call(patient("5000"))
		if got.body != "12" || !got.aborted || got.took != 5*time.Second {
			r.Errorf("got %q, aborted=%v after %v", got.body, got.aborted, got.took)
		}
		if c := r.lastCall(); c.Reason != ReasonDeadline {
			r.Errorf("heard %s %s", c.Outcome, c.Reason)
		}
		r.wantEvidence(success)
	})
}
