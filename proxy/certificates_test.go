package proxy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// selfSigned makes a certificate that is its own authority.
func selfSigned(t *testing.T, name string) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: text})
}

// files is a directory of certificates. Each write is later than the last as
// far as the file system can tell.
type files struct {
	*testing.T
	dir string
	at  time.Time
}

func newFiles(t *testing.T) *files {
	return &files{t, t.TempDir(), time.Now().Add(-time.Hour)}
}

func (f *files) write(name string, data []byte) string {
	f.Helper()
	path := filepath.Join(f.dir, name)
	f.at = f.at.Add(time.Second)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		f.Fatal(err)
	}
	if err := os.Chtimes(path, f.at, f.at); err != nil {
		f.Fatal(err)
	}
	return path
}

// shows returns the name in the certificate that the next handshake would
// show.
func shows(t *testing.T, c *Certificates) string {
	t.Helper()
	config := c.current()
	if len(config.Certificates) != 1 {
		t.Fatalf("%d certificates", len(config.Certificates))
	}
	leaf, err := x509.ParseCertificate(config.Certificates[0].Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	return leaf.Subject.CommonName
}

// A changed file serves the next handshake; what cannot be used leaves the old
// one in service until it can.
func TestCertificatesAreReadAnew(t *testing.T) {
	f := newFiles(t)
	cert1, key1 := selfSigned(t, "one")
	cert2, key2 := selfSigned(t, "two")
	o := TLSOptions{CAFile: f.write("ca", cert1), CertFile: f.write("cert", cert1), KeyFile: f.write("key", key1), ServerName: "x.test", MinVersion: tls.VersionTLS13}
	c, err := LoadCertificates(o)
	if err != nil {
		t.Fatal(err)
	}
	first := c.current()
	if first.ServerName != "x.test" || first.MinVersion != tls.VersionTLS13 || first.InsecureSkipVerify || shows(t, c) != "one" {
		t.Errorf("loaded %+v", first)
	}
	if c.current() != first {
		t.Error("read anew without a change")
	}
	f.write("cert", cert2)
	if got := shows(t, c); got != "one" {
		t.Errorf("with a key that does not fit, %s is shown", got)
	}
	f.write("key", key2)
	if got := shows(t, c); got != "two" {
		t.Errorf("after the change %s is shown", got)
	}
	if c.current().ClientSessionCache == first.ClientSessionCache {
		t.Error("sessions of the old certificate can be resumed with the new one")
	}
	second := c.current()
	for name, data := range map[string][]byte{"cert": []byte("half"), "ca": nil, "key": []byte("-----BEGIN")} {
		kept, _ := os.ReadFile(filepath.Join(f.dir, name))
		f.write(name, data)
		if c.current() != second {
			t.Errorf("a bad %s took effect", name)
		}
		f.write(name, kept)
		second = c.current()
	}
	if err := os.Remove(o.CAFile); err != nil {
		t.Fatal(err)
	}
	if c.current() != second {
		t.Error("a missing file took effect")
	}
	f.write("ca", cert2)
	now := c.current()
	if now == second || now.RootCAs.Equal(second.RootCAs) {
		t.Error("the file that came back was not read")
	}
}

// A rotation by a symbolic link, as Kubernetes does it, is a change.
func TestCertificatesBehindLinks(t *testing.T) {
	f := newFiles(t)
	for _, name := range []string{"one", "two"} {
		if err := os.Mkdir(filepath.Join(f.dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		cert, key := selfSigned(t, name)
		f.write(name+"/cert", cert)
		f.write(name+"/key", key)
	}
	link := filepath.Join(f.dir, "..data")
	point := func(to string) {
		t.Helper()
		next := filepath.Join(f.dir, "next")
		if err := os.Symlink(to, next); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, link); err != nil {
			t.Fatal(err)
		}
	}
	point("one")
	c, err := LoadCertificates(TLSOptions{CertFile: filepath.Join(link, "cert"), KeyFile: filepath.Join(link, "key")})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"one", "two", "one"} {
		point(name)
		if got := shows(t, c); got != name {
			t.Errorf("%s is shown, want %s", got, name)
		}
	}
}

// An error names the key and the file, and says what to do.
func TestCertificateFaults(t *testing.T) {
	f := newFiles(t)
	cert, key := selfSigned(t, "one")
	_, other := selfSigned(t, "two")
	certFile, keyFile, otherFile := f.write("cert", cert), f.write("key", key), f.write("other", other)
	gone, empty := filepath.Join(f.dir, "gone"), f.write("empty", nil)
	for _, c := range []struct {
		options TLSOptions
		says    []string
	}{
		{TLSOptions{CAFile: gone}, []string{"tls.ca_file", gone, "readable"}},
		{TLSOptions{CAFile: empty}, []string{"tls.ca_file", empty, "PEM"}},
		{TLSOptions{CAFile: keyFile}, []string{"tls.ca_file", keyFile, "PEM"}},
		{TLSOptions{CertFile: certFile}, []string{"tls.key_file", "both or neither"}},
		{TLSOptions{KeyFile: keyFile}, []string{"tls.cert_file", "both or neither"}},
		{TLSOptions{CertFile: certFile, KeyFile: otherFile}, []string{"tls.cert_file", certFile, otherFile, "fit"}},
		{TLSOptions{CertFile: certFile, KeyFile: gone}, []string{"tls.key_file", gone}},
		{TLSOptions{CertFile: empty, KeyFile: keyFile}, []string{"tls.cert_file", empty}},
	} {
		_, err := LoadCertificates(c.options)
		if err == nil {
			t.Errorf("%+v is taken", c.options)
			continue
		}
		for _, word := range c.says {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%+v: %v, want %q in it", c.options, err, word)
			}
		}
	}
}

// Which settings share connections.
func TestSameCertificates(t *testing.T) {
	a, b := &Certificates{options: TLSOptions{ServerName: "a"}}, &Certificates{options: TLSOptions{ServerName: "b"}}
	again := &Certificates{options: TLSOptions{ServerName: "a"}}
	var none *Certificates
	if !a.same(again) || a.same(b) || a.same(none) || none.same(a) || !none.same(nil) {
		t.Error("same tells otherwise")
	}
	if none.current().MinVersion != tls.VersionTLS12 || none.current().InsecureSkipVerify {
		t.Errorf("without settings: %+v", none.current())
	}
}

// One handshake's configuration changes nothing for others.
func TestHandshakeConfig(t *testing.T) {
	d := newDialer(&Certificates{options: TLSOptions{}, config: &tls.Config{MinVersion: tls.VersionTLS13}})
	got := d.config("payments.internal:8443", []string{"h2"})
	if got.ServerName != "payments.internal" || len(got.NextProtos) != 1 || got.MinVersion != tls.VersionTLS13 {
		t.Errorf("got %+v", got)
	}
	if got := d.certificates.current(); got.ServerName != "" || got.NextProtos != nil {
		t.Errorf("the shared configuration became %+v", got)
	}
	if got := d.config("[2001:db8::1]:443", nil).ServerName; got != "2001:db8::1" {
		t.Errorf("an address is verified as %s", got)
	}
	d.certificates.config.ServerName = "other.test"
	if got := d.config("payments.internal:8443", nil).ServerName; got != "other.test" {
		t.Errorf("server_name is %s", got)
	}
}
