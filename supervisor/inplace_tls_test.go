package supervisor

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// signed makes a certificate that signs itself and whatever shows it, and
// writes it with its key into one file.
func signed(t *testing.T, path, name string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		DNSNames: []string{"up.test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private})...)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// start starts the upstream, on https where the change is one of TLS, and
// returns the words that its configuration may use.
func (u *upstream) start(t *testing.T, c change) map[string]string {
	t.Helper()
	dir := t.TempDir()
	words := map[string]string{}
	for word, name := range map[string]string{"$STRANGER": "stranger", "$ONE": "one", "$TWO": "two"} {
		words[word] = filepath.Join(dir, name)
		signed(t, words[word], name)
	}
	for word, text := range map[string]string{"$OLD": "old", "$NEW": "new"} {
		words[word] = filepath.Join(dir, text+".txt")
		if err := os.WriteFile(words[word], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	words["$CA"] = filepath.Join(dir, "ca")
	certificate := signed(t, words["$CA"], "up")
	if strings.Contains(c.before, "tls:") {
		u.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequestClientCert, MaxVersion: tls.VersionTLS12}
		u.StartTLS()
	} else {
		u.Start()
	}
	return words
}

// silent accepts connections and never shakes hands.
func silent(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return "https://" + l.Addr().String()
}

// The authorities' file has other contents under the same name: trust in
// connections made before ends with it, and nothing else does.
func TestChangedAuthorityGetsNewConnections(t *testing.T) {
	c := change{before: "tls: {ca_file: $CA}"}
	p := newPlace(t, c)
	connections := map[string]bool{}
	ask := func() int {
		a := p.get1("/remote")
		connections[a.body] = true
		return a.status
	}
	p.apply(p.config(c.before))
	for range 3 {
		if s := ask(); s != http.StatusOK {
			t.Fatalf("status %d", s)
		}
	}
	if len(connections) != 1 {
		t.Fatalf("three calls went over %d connections", len(connections))
	}
	p.get1("/500")
	before, dependency := p.state(), p.s.current.Load().dependencies[0].proxy
	ca, err := os.ReadFile(p.words["$CA"])
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := os.ReadFile(p.words["$STRANGER"])
	if err != nil {
		t.Fatal(err)
	}
	reload := func(authorities []byte) {
		if err := os.WriteFile(p.words["$CA"], authorities, 0o600); err != nil {
			t.Fatal(err)
		}
		p.apply(p.config(c.before))
	}
	reload(append(ca, '\n'))
	if ask(); len(connections) != 1 {
		t.Error("a file that says the same ended the connections")
	}
	reload(append(stranger, ca...))
	if after := p.state(); after.since != before.since || after.failures != before.failures || after.copies < before.copies || p.s.current.Load().dependencies[0].proxy != dependency {
		t.Errorf("the past became %+v, was %+v", after, before)
	}
	if s := ask(); s != http.StatusOK || len(connections) != 2 {
		t.Errorf("with one authority more: status %d, %d connections; want a new one", s, len(connections))
	}
	reload(stranger)
	if a := p.get1("/new"); a.status != http.StatusBadGateway {
		t.Errorf("without the upstream's authority: %+v, want no connection", a)
	}
}
