package proxy

import (
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// informing makes the upstream say interim responses before each answer.
func (r *rig) informing(codes ...int) {
	r.d.current.Load().pool.instead = roundTripperFunc(func(req *http.Request) (*http.Response, error) {
		trace := httptrace.ContextClientTrace(req.Context())
		for _, code := range codes {
			if err := trace.Got1xxResponse(code, textproto.MIMEHeader{"Link": {"a"}, "Connection": {"X-Hop"}, "X-Hop": {"1"}, "Keep-Alive": {"5"}}); err != nil {
				// As the Transport does: the connection is given up.
				trace.GotConn(httptrace.GotConnInfo{Conn: &countedConn{Conn: sink{}}})
				_, _ = r.up.next(req)
				return nil, err
			}
		}
		return r.up.RoundTrip(req)
	})
}

// Interim responses are passed on as they come; of an attempt that may be made
// again they wait for its end, and none of a failed one is ever seen.
func TestInterim(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Settings)
		method string
		up     []reply
		want   []int
	}{
		{"no retries", nil, "GET", []reply{{}}, []int{102, 103}},
		{"a failure that stands", nil, "GET", []reply{{status: 503}}, []int{102, 103}},
		{"retries", retries(2), "GET", []reply{{}}, []int{102, 103}},
		{"the second succeeds", retries(2), "GET", []reply{{status: 503}, {}}, []int{102, 103}},
		{"all fail", retries(2), "GET", []reply{{status: 503}}, []int{102, 103}},
		{"may not be sent twice", retries(2), "POST", []reply{{status: 503}}, []int{102, 103}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, c.change, func(r *rig) {
				r.informing(102, 103)
				r.up.will(c.up...)
				got := r.call(caller{method: c.method})
				if !slices.Equal(got.informed, c.want) {
					r.Errorf("informed of %v, want %v", got.informed, c.want)
				}
				if got.header.Get("X-Hop") != "" || got.header.Get("Keep-Alive") != "" {
					r.Errorf("the connection's fields came through: %v", got.header)
				}
			})
		})
	}
}

// An upstream that says interim responses without end is not listened to.
func TestInterimWithoutEnd(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		codes := make([]int, mostInterim+1)
		for i := range codes {
			codes[i] = 103
		}
		r.informing(codes...)
		got := r.get("/")
		if got.status != 502 || len(got.informed) != mostInterim {
			r.Errorf("got %d after %d interim responses", got.status, len(got.informed))
		}
		r.wantEvidence(failure)
	})
	bubble(t, nil, func(r *rig) {
		codes := make([]int, mostInterim)
		for i := range codes {
			codes[i] = 103
		}
		r.informing(codes...)
		r.get("/").want(t, 200, "", 0)
	})
}

// A transport that sends a request again by itself makes attempts, each of
// which is counted; one that only looked for a connection made none.
func TestHiddenAttemptsAreCounted(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		r.d.current.Load().pool.instead = roundTripperFunc(func(req *http.Request) (*http.Response, error) {
			trace := httptrace.ContextClientTrace(req.Context())
			trace.GotConn(httptrace.GotConnInfo{Conn: &countedConn{Conn: sink{}}}) // died before anything was written
			for range 2 {
				conn := &countedConn{Conn: sink{}}
				trace.GotConn(httptrace.GotConnInfo{Conn: conn})
				_, _ = conn.Write([]byte("headers"))
				trace.WroteHeaders()
				time.Sleep(ms(10))
				r.up.unseen-- // refused, as in RFC 9113 §8.7
			}
			return r.up.RoundTrip(req)
		})
		r.get("/").want(t, 200, "", ms(20))
		if diff := cmp.Diff([]Result{"reset", "reset", "success"}, r.results()); diff != "" {
			r.Error(diff)
		}
		if n := r.lastCall().Attempts; n != 3 {
			r.Errorf("%d attempts were told, want 3", n)
		}
		r.wantEvidence(success)
	})
}

// What belongs to one connection goes no further.
func TestRemoveHopByHop(t *testing.T) {
	h := http.Header{
		"Connection": {"", "x-a , X-B", "close"}, "X-A": {"1"}, "X-B": {"1"}, "X-C": {"1"}, "Te": {"trailers"}, "Trailer": {"X"}, "Upgrade": {"x"},
		"Transfer-Encoding": {"x"}, "Keep-Alive": {"x"}, "Proxy-Connection": {"x"}, "Proxy-Authenticate": {"x"},
	}
	removeHopByHop(h)
	if diff := cmp.Diff(http.Header{"X-C": {"1"}, "Proxy-Authenticate": {"x"}}, h); diff != "" {
		t.Error(diff)
	}
}

// A trailer cannot say how its message is framed or where it goes.
func TestCleanTrailer(t *testing.T) {
	h := http.Header{"Content-Length": {"5"}, "Host": {"x"}, "Transfer-Encoding": {"chunked"}, "Connection": {"X-Hop"}, "X-Hop": {"1"}, "X-Sum": {"1"}}
	cleanTrailer(h)
	if diff := cmp.Diff(http.Header{"X-Sum": {"1"}}, h); diff != "" {
		t.Error(diff)
	}
	cleanTrailer(nil)
}
