package proxy

import (
	"io"
	"net/http"
	"testing"
	"time"

	"sidecar/resilience/breaker"
)

// asGRPC is a gRPC caller.
func asGRPC() caller {
	return caller{method: "POST", target: "/s/M", header: http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}}, body: text("m")}
}

// failsLikeGRPC counts UNAVAILABLE and UNKNOWN.
func failsLikeGRPC(s *Settings) {
	s.FailureGRPC = func(code int) bool { return code == 14 || code == 2 }
}

// What is gRPC, and what only looks like it.
func TestIsGRPC(t *testing.T) {
	for kind, want := range map[string]bool{
		"application/grpc": true, "application/grpc+proto": true, "Application/gRPC; x=y": true, "application/grpc-web": false,
		"application/grpc-web+proto": false, "application/grpcx": false, "text/plain": false, "": false,
	} {
		if got := isGRPC(http.Header{"Content-Type": {kind}}); got != want {
			t.Errorf("%q: %v", kind, got)
		}
	}
}

// A status that is no number is UNKNOWN.
func TestGRPCStatus(t *testing.T) {
	for text, want := range map[string]int{"0": 0, "14": 14, "x": 2, "": 0} {
		code, present := grpcStatus(http.Header{"Grpc-Status": {text}})
		if code != want || present != (text != "") {
			t.Errorf("%q: %d, %v", text, code, present)
		}
	}
}

// trailered sets trailers at the end of a scripted answer.
func (r *rig) trailered(trailer http.Header) {
	r.d.current.Load().pool.instead = roundTripperFunc(func(req *http.Request) (*http.Response, error) {
		res, err := r.up.RoundTrip(req)
		if err == nil {
			res.Body = &ending{res.Body, res, trailer}
		}
		return res, err
	})
}

// ending is a body that its trailers follow.
type ending struct {
	io.ReadCloser
	res     *http.Response
	trailer http.Header
}

func (b *ending) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.res.Trailer = b.trailer
	}
	return n, err
}

// The verdict of a gRPC answer is in its headers if it is trailers-only, else
// in its trailers; a missing one is UNKNOWN.
func TestGRPCVerdicts(t *testing.T) {
	kind := http.Header{"Content-Type": {"application/grpc"}}
	only := func(code string) http.Header {
		return http.Header{"Content-Type": {"application/grpc"}, "Grpc-Status": {code}}
	}
	for _, c := range []struct {
		name    string
		up      reply
		trailer http.Header
		want    evidence
		outcome Outcome
	}{
		{"ok", reply{header: kind, body: text("m")}, http.Header{"Grpc-Status": {"0"}}, success, OutcomeOK},
		{"not found", reply{header: kind, body: text("m")}, http.Header{"Grpc-Status": {"5"}}, success, OutcomeOK},
		{"unavailable", reply{header: kind, body: text("m")}, http.Header{"Grpc-Status": {"14"}}, failure, OutcomeFailed},
		{"none", reply{header: kind, body: text("m")}, nil, failure, OutcomeFailed},
		{"garbage", reply{header: kind, body: text("m")}, http.Header{"Grpc-Status": {"?"}}, failure, OutcomeFailed},
		{"trailers only, ok", reply{header: only("0")}, nil, success, OutcomeOK},
		{"trailers only, unavailable", reply{header: only("14")}, nil, failure, OutcomeFailed},
		{"not gRPC", reply{header: http.Header{"Grpc-Status": {"14"}}}, nil, success, OutcomeOK},
		{"HTTP's status", reply{status: 503, header: kind}, nil, failure, OutcomeFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, failsLikeGRPC, func(r *rig) {
				r.trailered(c.trailer)
				r.up.will(c.up)
				r.call(asGRPC())
				r.wantEvidence(c.want)
				if got := r.lastCall().Outcome; got != c.outcome {
					r.Errorf("heard %s, want %s", got, c.outcome)
				}
			})
		})
	}
}

// The sidecar's own answers are gRPC's, and no static body stands in for them.
func TestGRPCOwnAnswers(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Settings)
		up     reply
		open   bool
		code   string
		why    Reason
	}{
		{"open", nil, reply{}, true, "14", ReasonOpen},
		{"timeout", noTries, reply{after: forever}, false, "4", ReasonTimeout},
		{"reset", nil, reply{fails: errReset}, false, "14", ReasonReset},
		{"too large", func(s *Settings) { s.MaxRequestBytes = 1 }, reply{}, false, "8", ReasonRequest},
	} {
		t.Run(c.name, func(t *testing.T) {
			change := both(fallbacks(static(200, "FB")), func(s *Settings) {
				s.Routes = []Route{{Methods: []string{"POST"}, OwnFallback: true, Policy: s.Policy}}
				s.Routes[0].Fallback = []Fallback{static(200, "FB")}
				if c.change != nil {
					c.change(s)
					c.change(&Settings{Policy: s.Routes[0].Policy})
					s.Routes[0].AttemptTimeout, s.Routes[0].MaxRequestBytes = s.AttemptTimeout, s.MaxRequestBytes
				}
			})
			bubble(t, change, func(r *rig) {
				if c.open {
					r.d.Force(breaker.ForcedOpen)
				}
				r.up.will(c.up)
				ask := asGRPC()
				ask.body = text("more")
				got := r.call(ask)
				if got.status != 200 || got.body != "" || got.header.Get("Grpc-Status") != c.code || got.header.Get("Content-Type") != "application/grpc" {
					r.Errorf("got %d %q with %v", got.status, got.body, got.header)
				}
				if got.header.Get("Grpc-Message") == "" || got.header.Get("Proxy-Status") == "" || got.header.Get("Sidecar-Degraded") != "" {
					r.Errorf("got %v", got.header)
				}
				if h := r.lastCall(); h.Reason != c.why || h.Status != 200 {
					r.Errorf("heard %s, %d; want %s, 200", h.Reason, h.Status, c.why)
				}
			})
		})
	}
}

// A gRPC stream leaves the deadline at its headers; a probe among them is
// judged by its headers attempt_timeout later.
func TestGRPCStream(t *testing.T) {
	bubble(t, both(failsLikeGRPC, trips(1)), func(r *rig) {
		r.up.will(reply{status: 500})
		r.call(asGRPC())
		r.wantState(breaker.Open)
		time.Sleep(time.Second)
		r.trailered(http.Header{"Grpc-Status": {"0"}})
		r.up.will(reply{header: http.Header{"Content-Type": {"application/grpc"}}, length: -1, body: []step{{text: "1"}, {after: 30 * time.Second, text: "2"}}})
		stream := r.start(asGRPC())
		time.Sleep(ms(499))
		r.wantState(breaker.HalfOpen)
		time.Sleep(ms(2))
		r.wantState(breaker.Closed)
		stream.wait().want(t, 200, "12", 30*time.Second)
		if h := r.lastCall(); !h.Stream || h.Outcome != OutcomeOK {
			r.Errorf("heard %+v", h)
		}
	})
}
