package e2e

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// digest answers with the sum of what it got, in a trailer too, and with as
// much as was asked for.
func digest(w http.ResponseWriter, r *http.Request) {
	sum := sha256.New()
	n, err := io.Copy(sum, r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Trailer", "X-Sum")
	w.Header().Set("X-Length", fmt.Sprint(r.ContentLength))
	w.Header().Set("X-Got", fmt.Sprint(n))
	w.Header().Set("X-Trailer", r.Trailer.Get("X-Up"))
	w.WriteHeader(http.StatusTeapot)
	_, _ = io.Copy(w, io.LimitReader(letters{}, 300_000))
	w.Header().Set("X-Sum", hex.EncodeToString(sum.Sum(nil)))
	w.Header().Set(http.TrailerPrefix+"X-Late", "1")
}

// letters is a text without an end.
type letters struct{}

func (letters) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a' + byte(i%26)
	}
	return len(p), nil
}

// Every protocol of a caller goes with every protocol of an upstream: bodies,
// lengths and trailers in both directions, and the status. Attempts counted are the requests
// that the upstream saw.
func TestProtocols(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "ca")
	caFile := put(t, t.TempDir(), "ca.pem", ca.pem())
	_, _, pair := ca.issue(t, "ip")
	config := func() *tls.Config { return &tls.Config{Certificates: []tls.Certificate{pair}} }
	both, only1, only2 := newServer(t, "http1 h2", config(), digest), newServer(t, "http1", config(), digest), newServer(t, "h2", config(), digest)
	plain := newServer(t, "http1 h2c", nil, digest)
	same := "same" // as the caller speaks
	cases := []struct {
		scheme, protocol string
		to               *server
		want             string
	}{
		{"http", "http1", plain, "HTTP/1.1"},
		{"http", "h2c", plain, "HTTP/2.0"},
		{"http", "auto", plain, same},
		{"https", "auto", both, "HTTP/2.0"},
		{"https", "auto", only1, "HTTP/1.1"},
		{"https", "auto", only2, "HTTP/2.0"},
		{"https", "http1", both, "HTTP/1.1"},
		{"https", "h2", both, "HTTP/2.0"},
		{"https", "http1", only2, ""},
		{"https", "h2", only1, ""},
	}
	yaml := base + "dependencies:\n"
	for i, c := range cases {
		security := ""
		if c.scheme == "https" {
			security = ", tls: {ca_file: " + caFile + "}"
		}
		yaml += fmt.Sprintf("  - {name: d%d, listen: $D%d, upstream: \"%s://%s\", protocol: %s, connect_timeout: 10s, attempt_timeout: 10s, timeout: 20s, breaker: {mode: \"off\"}, retry: {max_retries: 1, \"on\": [\"503\"]}%s}\n",
			i, i, c.scheme, c.to.addr, c.protocol, security)
	}
	s := start(t, yaml)
	s.without(t, both, only1, only2, plain)
	for _, speaks := range []string{"http1", "h2c"} {
		client := s.speaker(t, speaks)
		for i, c := range cases {
			want := c.want
			if want == same {
				want = map[string]string{"http1": "HTTP/1.1", "h2c": "HTTP/2.0"}[speaks]
			}
			port := fmt.Sprintf("D%d", i)
			before, _, _ := c.to.seen()
			for _, size := range []int{0, 5, 1 << 20} {
				what := fmt.Sprintf("%s to %s %s, %d bytes", speaks, c.scheme, c.protocol, size)
				for _, known := range []bool{true, false} {
					var body io.Reader = strings.NewReader(strings.Repeat("x", size))
					length := fmt.Sprint(size)
					if !known {
						body, length = io.MultiReader(body), "-1" // whose length nobody can tell
					}
					req := s.request(t, http.MethodPut, port, "/x", body)
					if !known {
						req.Trailer = http.Header{"X-Up": {"up"}}
					}
					res, got := s.exchangeOver(t, client, req)
					if want == "" {
						if res.StatusCode != http.StatusBadGateway {
							t.Errorf("%s: got %s, want 502", what, res.Status)
						}
						continue
					}
					up := ""
					if !known {
						up = "up"
					}
					sum := sha256.Sum256([]byte(strings.Repeat("x", size)))
					_, _, spoken := c.to.seen()
					if res.StatusCode != http.StatusTeapot || len(got) != 300_000 || res.Trailer.Get("X-Sum") != hex.EncodeToString(sum[:]) || res.Trailer.Get("X-Late") != "1" ||
						res.Header.Get("X-Got") != fmt.Sprint(size) || res.Header.Get("X-Trailer") != up || spoken != want {
						t.Errorf("%s: got %s with %v, %d bytes and the trailers %v by %s, want %s", what, res.Status, res.Header, len(got), res.Trailer, spoken, want)
					}
					if l := res.Header.Get("X-Length"); l != length && want != "" {
						t.Errorf("%s: the upstream was told a length of %s, want %s", what, l, length)
					}
				}
			}
			if want == "" {
				continue
			}
			// A GET comes without a body, from the first on.
			res, _ := s.exchangeOver(t, client, s.request(t, http.MethodGet, port, "/get", nil))
			if l := res.Header.Get("X-Length"); l != "0" {
				t.Errorf("%s to %s %s: the upstream was told that a GET has a body of length %s", speaks, c.scheme, c.protocol, l)
			}
			after, _, _ := c.to.seen()
			if after-before != 7 {
				t.Errorf("%s to %s %s: the upstream saw %d requests, want 7", speaks, c.scheme, c.protocol, after-before)
			}
		}
	}
	for i, c := range cases {
		if c.want != "" {
			s.wantMetric(t, 14, "sidecar_attempts_total", "dependency", fmt.Sprintf("d%d", i), "result", "success")
		}
	}
}

// The first request of a pool, when nothing is known of the upstream yet, is
// framed like any other.
func TestProtocols_FirstRequest(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "ca")
	caFile := put(t, t.TempDir(), "ca.pem", ca.pem())
	_, _, pair := ca.issue(t, "ip")
	for _, protocols := range []string{"http1 h2", "http1"} {
		v := newServer(t, protocols, &tls.Config{Certificates: []tls.Certificate{pair}}, digest)
		s := start(t, base+"dependencies:\n  - {name: a, listen: $A, upstream: \"https://"+v.addr+"\", connect_timeout: 5s, attempt_timeout: 5s, timeout: 9s, tls: {ca_file: "+caFile+"}}\n")
		s.without(t, v)
		for i := range 3 {
			r := s.get("A", "/")
			if l := r.header.Get("X-Length"); r.status != http.StatusTeapot || l != "0" {
				t.Errorf("%s: request %d got %d, and a length of %s", protocols, i, r.status, l)
			}
		}
	}
}

// What is sent up is sent as it comes, and what comes down meanwhile too, in
// HTTP/2 on both sides.
func TestProtocols_BothWaysAtOnce(t *testing.T) {
	t.Parallel()
	v := newServer(t, "h2c", nil, func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		_ = rc.EnableFullDuplex()
		w.WriteHeader(http.StatusOK)
		_ = rc.Flush()
		buffer := make([]byte, 100)
		for {
			n, err := r.Body.Read(buffer)
			_, _ = w.Write(buffer[:n])
			_ = rc.Flush()
			if err != nil {
				return
			}
		}
	})
	s := start(t, base+`
dependencies:
  - {name: a, listen: $A, upstream: "http://`+v.addr+`", protocol: h2c, attempt_timeout: 5s, timeout: 10s, retry: {max_retries: 2}, max_request_bytes: 1MiB}
`)
	s.without(t, v)
	in, out := io.Pipe()
	res, err := s.speaker(t, "h2c").Do(s.request(t, http.MethodPost, "A", "/", in))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	buffer := make([]byte, 100)
	for i := range 20 {
		said := fmt.Sprintf("word %d", i)
		began := time.Now()
		if _, err := io.WriteString(out, said); err != nil {
			t.Fatal(err)
		}
		n, err := io.ReadFull(res.Body, buffer[:len(said)])
		if err != nil || string(buffer[:n]) != said {
			t.Fatalf("got %q (%v), want %q", buffer[:n], err, said)
		}
		wantWithin(t, "an echo", time.Since(began), 100*time.Millisecond)
	}
	_ = out.Close()
	if rest, err := io.ReadAll(res.Body); len(rest) != 0 || err != nil {
		t.Errorf("at the end %q, %v", rest, err)
	}
}
