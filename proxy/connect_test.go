package proxy

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// The pool follows no proxy and asks for no compression.
func TestPoolAddsNothing(t *testing.T) {
	tr := newPool(usual()).current.Load().http1
	if tr.Proxy != nil || !tr.DisableCompression {
		t.Error("the pool follows a proxy or asks for compression")
	}
}

// Nobody goes on connecting for an attempt that was given up; one that merely
// found another connection leaves this one to the pool, until connect_timeout.
func TestConnectIsGivenUp(t *testing.T) {
	for _, c := range []struct {
		name   string
		caller caller
		up     reply
		took   time.Duration
	}{
		{"caller left", caller{leaves: ms(100)}, reply{after: forever}, ms(100)},
		{"attempt timeout", caller{}, reply{after: forever}, ms(500)},
		{"another connection", caller{}, reply{after: ms(10)}, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, nil, func(r *rig) {
				var took time.Duration
				began := time.Now()
				var dial sync.WaitGroup
				r.d.current.Load().pool.instead = roundTripperFunc(func(req *http.Request) (*http.Response, error) {
					dial.Go(func() {
						ctx, cancel := connectContext(context.WithoutCancel(req.Context()))
						defer cancel()
						<-ctx.Done()
						took = time.Since(began)
					})
					synctest.Wait()
					return r.up.RoundTrip(req)
				})
				r.up.will(c.up)
				r.call(c.caller)
				dial.Wait()
				if took != c.took {
					r.Errorf("connecting took %v, want %v", took, c.took)
				}
			})
		})
	}
}

// over calls an upstream over loopback, in real time.
func over(t *testing.T, upstream string, change func(*Settings)) (*httptest.ResponseRecorder, Call) {
	t.Helper()
	s := usual()
	s.Upstream, _ = url.Parse(upstream)
	s.Timeout, s.AttemptTimeout, s.ConnectTimeout = 0, 0, time.Minute // a busy machine is no failure
	if change != nil {
		change(s)
	}
	o := &recorder{}
	d := New("payments", s, nil, o)
	defer d.Close()
	w := httptest.NewRecorder()
	d.ServeHTTP(w, (&caller{}).request(t))
	return w, o.calls[0]
}

// Connections that cannot be made, each with its kind.
func TestConnectFailures(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = quiet
	secure.StartTLS()
	defer secure.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	inNoTime := func(s *Settings) { s.ConnectTimeout = 1 }
	for _, c := range []struct {
		name, upstream string
		change         func(*Settings)
		status         int
		why            Reason
		says           string
	}{
		{"refused", gone.URL, nil, 502, ReasonConnect, "connection_refused"},
		{"no TLS", strings.Replace(plain.URL, "http", "https", 1), nil, 502, ReasonConnect, "tls_protocol_error"},
		{"unknown certificate", secure.URL, nil, 502, ReasonConnect, "tls_protocol_error"},
		{"too late", plain.URL, inNoTime, 504, ReasonTimeout, "connection_timeout"},
		{"known certificate", secure.URL, func(s *Settings) { s.TLS = trusting(t, secure) }, 404, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, call := over(t, c.upstream, c.change)
			if w.Code != c.status || call.Reason != c.why || !strings.Contains(w.Header().Get("Proxy-Status"), c.says) {
				t.Errorf("got %d %s %q; want %d %s %s", w.Code, call.Reason, w.Header().Get("Proxy-Status"), c.status, c.why, c.says)
			}
			if host := strings.SplitAfter(c.upstream, "//")[1]; c.status > 404 && strings.Contains(w.Body.String(), host) {
				t.Errorf("the upstream's address shows in %s", w.Body)
			}
		})
	}
}

// trusting writes the server's certificate to a file and trusts it.
func trusting(t *testing.T, s *httptest.Server) *Certificates {
	file := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(file, block, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := LoadCertificates(TLSOptions{CAFile: file, ServerName: "example.com"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// errors of net/http that have no name of their own are told by their kind.
func TestClassify(t *testing.T) {
	for _, c := range []struct {
		err  error
		want Reason
	}{
		{fmt.Errorf("x: %w", syscall.EPIPE), ReasonReset},
		{fmt.Errorf("x: %w", io.ErrUnexpectedEOF), ReasonReset},
		{errors.New("http: server closed idle connection"), ReasonReset},
		{&dialError{context.DeadlineExceeded}, ReasonTimeout},
		{&dialError{io.EOF}, ReasonConnect},
		{&dialError{&tlsError{io.EOF}}, ReasonConnect},
	} {
		if got := classify(c.err); got != c.want {
			t.Errorf("%v is %s, want %s", c.err, got, c.want)
		}
	}
	if !slices.Contains(Failures, classify(errSwitch)) {
		t.Error("an unknown error has no reason of the fixed set")
	}
}

// quiet keeps a test server's complaints out of the output.
var quiet = log.New(io.Discard, "", 0)
