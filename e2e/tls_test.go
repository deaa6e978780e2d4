package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// pemOf writes one block of PEM.
func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// serials numbers the certificates.
var serials atomic.Int64

// newAuthority makes a root.
func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serials.Add(1)), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert, key}
}

func (a *authority) pem() []byte { return pemOf("CERTIFICATE", a.cert.Raw) }

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// issue signs a certificate for a name, and for 127.0.0.1 with the name "ip".
func (a *authority) issue(t *testing.T, name string) (cert, key []byte, pair tls.Certificate) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serials.Add(1)), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if name == "ip" {
		template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &k.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = pemOf("CERTIFICATE", der), pemOf("EC PRIVATE KEY", private)
	pair, err = tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key, pair
}

// put writes a file of a directory as an atomic rename.
func put(t *testing.T, dir, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path+".next", data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".next", path); err != nil {
		t.Fatal(err)
	}
	return path
}

// peer answers with the name of the client's certificate and of the server
// that it asked for.
func peer(w http.ResponseWriter, r *http.Request) {
	name := "nobody"
	if len(r.TLS.PeerCertificates) > 0 {
		name = r.TLS.PeerCertificates[0].Subject.CommonName
	}
	_, _ = io.WriteString(w, name+" at "+r.TLS.ServerName)
}

// Whom the sidecar trusts, as whom it shows itself, which name and which
// version it demands: each is decided by its key, and what does not fit is a
// failed connection and no call.
func TestTLS_WhomToTrust(t *testing.T) {
	t.Parallel()
	ca, other := newAuthority(t, "ca"), newAuthority(t, "other")
	dir := t.TempDir()
	caFile, otherFile := put(t, dir, "ca.pem", ca.pem()), put(t, dir, "other.pem", other.pem())
	bundle := put(t, dir, "bundle.pem", append(other.pem(), ca.pem()...))
	cert, key, _ := ca.issue(t, "app")
	certFile, keyFile := put(t, dir, "app.pem", cert), put(t, dir, "app.key", key)
	stranger, strangerKey, _ := other.issue(t, "stranger")
	strangerFile, strangerKeyFile := put(t, dir, "stranger.pem", stranger), put(t, dir, "stranger.key", strangerKey)

	_, _, byIP := ca.issue(t, "ip")
	_, _, byName := ca.issue(t, "payments.test")
	ip := newServer(t, "http1 h2", &tls.Config{Certificates: []tls.Certificate{byIP}}, peer)
	named := newServer(t, "http1 h2", &tls.Config{Certificates: []tls.Certificate{byName}}, peer)
	mutual := newServer(t, "http1 h2", &tls.Config{
		Certificates: []tls.Certificate{byIP}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.pool(),
	}, peer)
	old := newServer(t, "http1", &tls.Config{Certificates: []tls.Certificate{byIP}, MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS12}, peer)

	cases := []struct {
		name, tls string
		to        *server
		want      string // the answer, or empty for a failed connection
	}{
		{"trusted", "ca_file: " + caFile, ip, "nobody at "},
		{"one of a bundle", "ca_file: " + bundle, ip, "nobody at "},
		{"the system's roots", "min_version: \"1.2\"", ip, ""},
		{"another authority", "ca_file: " + otherFile, ip, ""},
		{"not verified", "insecure_skip_verify: true", ip, "nobody at "},
		{"named", "server_name: payments.test, ca_file: " + caFile, named, "nobody at payments.test"},
		{"not the name", "ca_file: " + caFile, named, ""},
		{"another name", "server_name: other.test, ca_file: " + caFile, named, ""},
		{"mutual", "ca_file: " + caFile + ", cert_file: " + certFile + ", key_file: " + keyFile, mutual, "app at "},
		{"no certificate to show", "ca_file: " + caFile, mutual, ""},
		{"a stranger's certificate", "ca_file: " + caFile + ", cert_file: " + strangerFile + ", key_file: " + strangerKeyFile, mutual, ""},
		{"an old version", "ca_file: " + caFile, old, "nobody at "},
		{"too old a version", "min_version: \"1.3\", ca_file: " + caFile, old, ""},
	}
	yaml := base + "dependencies:\n"
	for i, c := range cases {
		yaml += fmt.Sprintf("  - {name: d%d, listen: $D%d, upstream: \"https://%s\", connect_timeout: 5s, attempt_timeout: 5s, timeout: 5s, breaker: {mode: \"off\"}, tls: {%s}}\n", i, i, c.to.addr, c.tls)
	}
	s := start(t, yaml)
	s.without(t, ip, named, mutual, old)
	for i, c := range cases {
		for range 2 {
			r := s.get(fmt.Sprintf("D%d", i), "/")
			switch {
			case c.want != "" && (r.status != http.StatusOK || r.body != c.want):
				t.Errorf("%s: got %v, want %q", c.name, r, c.want)
			case c.want == "" && (r.status != http.StatusBadGateway || r.reason() != "connect" && r.reason() != "reset" && r.reason() != "protocol"):
				t.Errorf("%s: got %v, want no connection", c.name, r)
			case c.want == "" && strings.Contains(r.body, c.to.addr):
				t.Errorf("%s: the upstream's address shows in %s", c.name, r.body)
			}
		}
	}
}

// What happened: certificates were read once, and a rotation needed a restart,
// or ended connections.
// Right: the next handshake uses the new files, calls notice nothing, and what
// cannot be used (half-written, missing, not fitting) changes nothing.
func TestTLS_RotationUnderLoad(t *testing.T) {
	t.Parallel()
	before, after := newAuthority(t, "before"), newAuthority(t, "after")
	dir := t.TempDir()
	caFile := put(t, dir, "ca.pem", before.pem())
	cert, key, _ := before.issue(t, "app-1")
	certFile, keyFile := put(t, dir, "app.pem", cert), put(t, dir, "app.key", key)
	var served atomic.Pointer[tls.Certificate]
	_, _, first := before.issue(t, "ip")
	_, _, second := after.issue(t, "ip")
	served.Store(&first)
	both := before.pool()
	both.AddCert(after.cert)
	v := newServer(t, "http1", &tls.Config{
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: both,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return served.Load(), nil },
	}, func(w http.ResponseWriter, r *http.Request) {
		if time.Now().UnixNano()%4 == 0 {
			w.Header().Set("Connection", "close") // so that there are handshakes all the time
		}
		peer(w, r)
	})
	s := start(t, fmt.Sprintf(base+`
dependencies:
  - name: a
    listen: $A
    upstream: https://%s
    connect_timeout: 10s
    attempt_timeout: 10s
    timeout: 10s
    bulkhead: {max_concurrent: 50, max_waiting: 1000, queue_timeout: 10s}
    retry: {max_retries: 1, "on": [reset]}
    tls: {ca_file: %s, cert_file: %s, key_file: %s}
`, v.addr, caFile, certFile, keyFile))
	s.without(t, v)
	calls := startLoad(100, 3*time.Second, func(int) result { return s.get("A", "/") })
	step := func() { time.Sleep(400 * time.Millisecond) }
	awaitPeer := func(want string) {
		t.Helper()
		var r result
		if !poll(patience, func() bool { r = s.get("A", "/"); return r.body == want+" at " }) {
			t.Errorf("the peer is %v, want %s", r, want)
		}
	}
	step()
	put(t, dir, "ca.pem", append(before.pem(), after.pem()...)) // both, as one does
	step()
	served.Store(&second)
	step()
	put(t, dir, "ca.pem", []byte("-----BEGIN CERT"))
	step()
	put(t, dir, "ca.pem", after.pem())
	cert, key, _ = after.issue(t, "app-2")
	put(t, dir, "app.pem", cert) // and for a moment the old key
	step()
	put(t, dir, "app.key", key)
	awaitPeer("app-2")
	if err := os.Remove(keyFile); err != nil {
		t.Fatal(err)
	}
	awaitPeer("app-2")
	all := calls.wait()
	if lost := only(all, func(r result) bool { return r.status != http.StatusOK || r.err != nil }); len(lost) > 0 {
		t.Errorf("%d of %d calls failed, the first: %v", len(lost), len(all), lost[0])
	}
	if n, c, _ := v.seen(); c < 10 || n < len(all) {
		t.Errorf("%d calls on %d connections: there were no handshakes", n, c)
	}
	if n := s.metrics(t).sum(t, "sidecar_attempts_total", "dependency", "a", "result", "connect"); n != 0 {
		t.Errorf("%v handshakes failed", n)
	}
}

// Files that cannot be used are found when the configuration is loaded, each
// named with its key and what is wrong; a reload with one changes nothing.
func TestTLS_BadFiles(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "ca")
	dir := t.TempDir()
	caFile := put(t, dir, "ca.pem", ca.pem())
	cert, key, pair := ca.issue(t, "ip")
	certFile, keyFile := put(t, dir, "app.pem", cert), put(t, dir, "app.key", key)
	_, foreign, _ := ca.issue(t, "other")
	foreignFile := put(t, dir, "foreign.key", foreign)
	empty, text, gone := put(t, dir, "empty.pem", nil), put(t, dir, "text.pem", []byte("not PEM")), filepath.Join(dir, "gone.pem")
	v := newServer(t, "http1 h2", &tls.Config{Certificates: []tls.Certificate{pair}}, peer)
	config := func(options string) string {
		return base + "dependencies:\n  - {name: a, listen: $A, upstream: \"https://" + v.addr + "\", connect_timeout: 5s, attempt_timeout: 5s, timeout: 9s, tls: {" + options + "}}\n"
	}
	s := start(t, config("ca_file: "+caFile))
	s.without(t, v)
	for options, name := range map[string]string{
		"ca_file: " + gone: gone, "ca_file: " + empty: empty, "ca_file: " + text: text, "ca_file: " + dir: dir, "ca_file: " + keyFile: keyFile,
		"cert_file: " + gone + ", key_file: " + keyFile:         gone,
		"cert_file: " + certFile + ", key_file: " + gone:        gone,
		"cert_file: " + certFile + ", key_file: " + foreignFile: foreignFile,
		"cert_file: " + text + ", key_file: " + keyFile:         text,
		"cert_file: " + certFile:                                "key_file",
		"key_file: " + keyFile:                                  "cert_file",
		"min_version: \"1.4\"":                                  "min_version",
	} {
		p := s.failReload(t, config(options))
		if !strings.Contains(p.Error, name) || !strings.Contains(p.Error, "tls") {
			t.Errorf("%s: the answer says %q, want %s named", options, p.Error, name)
		}
		if r := s.get("A", "/"); r.status != http.StatusOK {
			t.Errorf("%s: a call after the refusal: %v", options, r)
		}
	}
}
