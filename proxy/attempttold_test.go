package proxy

import (
	"net/http"
	"testing"
	"time"
)

// An attempt tells the status of its response and, in gRPC, the status in
// headers or trailers, whatever the policy makes of them.
func TestAttemptTellsItsStatus(t *testing.T) {
	kind := http.Header{"Content-Type": {"application/grpc"}}
	for _, c := range []struct {
		name         string
		reply        reply
		trailer      http.Header
		caller       caller
		status, grpc int
	}{
		{"ok", reply{body: text("x")}, nil, caller{}, 200, 0},
		{"a success that looks like an error", reply{status: 429}, nil, caller{}, 429, 0},
		{"a failure", reply{status: 503}, nil, caller{}, 503, 0},
		{"no response", reply{fails: errReset}, nil, caller{}, 0, 0},
		{"gRPC in trailers", reply{header: kind, body: text("m")}, http.Header{"Grpc-Status": {"8"}}, asGRPC(), 200, 8},
		{"gRPC's failure in trailers", reply{header: kind, body: text("m")}, http.Header{"Grpc-Status": {"14"}}, asGRPC(), 200, 14},
		{"gRPC without a status", reply{header: kind, body: text("m")}, nil, asGRPC(), 200, 2},
		{"gRPC in headers", reply{header: http.Header{"Content-Type": kind["Content-Type"], "Grpc-Status": {"12"}}}, nil, asGRPC(), 200, 12},
		{"not gRPC", reply{header: http.Header{"Grpc-Status": {"14"}}}, nil, caller{}, 200, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, failsLikeGRPC, func(r *rig) {
				r.up.will(c.reply)
				r.trailered(c.trailer)
				r.call(c.caller)
				r.mu.Lock()
				defer r.mu.Unlock()
				if a := r.attempts[0]; a.Status != c.status || a.GRPC != c.grpc {
					t.Errorf("told %d and %d, want %d and %d", a.Status, a.GRPC, c.status, c.grpc)
				}
			})
		})
	}
}

// A snapshot counts the calls in flight.
func TestSnapshotCountsCallsInFlight(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		r.up.will(reply{after: ms(100)})
		r.start(caller{})
		r.start(caller{})
		time.Sleep(ms(50))
		if n := r.d.Snapshot().InFlight; n != 2 {
			t.Errorf("%d calls in flight, want 2", n)
		}
	})
}

// The settings may bring the transport that sends the attempts.
func TestGivenTransport(t *testing.T) {
	up := &upstream{}
	s := usual()
	s.Transport = up
	if got := newPool(s).instead; got != up {
		t.Errorf("attempts are sent by %v, want the settings' transport", got)
	}
}
