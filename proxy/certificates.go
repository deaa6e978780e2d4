package proxy

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// TLSOptions is how an upstream is spoken to on https. It is comparable.
type TLSOptions struct {
	CAFile             string // PEM, the authorities to trust; empty = the system's
	CertFile, KeyFile  string // PEM, the client's certificate; both or neither
	ServerName         string // that the certificate must carry; empty = the upstream's host
	MinVersion         uint16 // such as tls.VersionTLS12
	InsecureSkipVerify bool
}

// Certificates gives the TLS configuration of each handshake. Files that have
// changed are read anew then, so a rotated certificate needs no reload and ends
// no connection; while the new files cannot be used, the old ones serve. It is
// safe for concurrent use.
type Certificates struct {
	options TLSOptions
	trusted *x509.CertPool // when they were loaded; nil for the system's

	mu     sync.Mutex // guards everything below
	config *tls.Config
	read   [3]fileState
}

// sessions is how many TLS sessions of one upstream are kept for resumption.
const sessions = 64

// LoadCertificates reads the files. Its error names the one that cannot be
// used.
func LoadCertificates(o TLSOptions) (*Certificates, error) {
	c := &Certificates{options: o}
	c.read = c.present()
	config, err := c.load()
	if err != nil {
		return nil, err
	}
	c.config, c.trusted = config, config.RootCAs
	return c, nil
}

// current returns the configuration for the next handshake, not to be changed.
func (c *Certificates) current() *tls.Config {
	if c == nil {
		return &tls.Config{MinVersion: tls.VersionTLS12}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.present(); now != c.read {
		if config, err := c.load(); err == nil {
			c.config, c.read = config, now
		}
	}
	return c.config
}

// load reads every file.
func (c *Certificates) load() (*tls.Config, error) {
	o := c.options
	config := &tls.Config{
		ServerName:         o.ServerName,
		MinVersion:         o.MinVersion,
		InsecureSkipVerify: o.InsecureSkipVerify, //nolint:gosec // the operator's choice, named as what it is
		ClientSessionCache: tls.NewLRUClientSessionCache(sessions),
	}
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("tls.ca_file: %w; name a readable file", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls.ca_file: %s holds no certificate; it must be PEM (-----BEGIN CERTIFICATE-----)", o.CAFile)
		}
	}
	if (o.CertFile == "") != (o.KeyFile == "") {
		return nil, errors.New("tls.cert_file and tls.key_file belong together; set both or neither")
	}
	if o.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("tls.cert_file %s with tls.key_file %s: %w; they must be PEM and fit each other", o.CertFile, o.KeyFile, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// fileState tells whether a file has changed.
type fileState struct {
	modified time.Time
	size     int64
}

// present looks at the files as they are now. A file that is missing for a
// moment, as in a rename, looks changed and cannot be loaded: the old one
// serves on.
func (c *Certificates) present() (now [3]fileState) {
	for i, path := range []string{c.options.CAFile, c.options.CertFile, c.options.KeyFile} {
		if path == "" {
			continue
		}
		if info, err := os.Stat(path); err == nil {
			now[i] = fileState{info.ModTime(), info.Size()}
		}
	}
	return now
}

// same reports whether two sets of certificates come from the same settings.
func (c *Certificates) same(o *Certificates) bool {
	if c == nil || o == nil {
		return c == o
	}
	return c.options == o.options
}

// trustsAs reports whether both trusted the same authorities when they were
// loaded.
func (c *Certificates) trustsAs(o *Certificates) bool {
	if c == nil || o == nil {
		return c == o
	}
	return c.trusted.Equal(o.trusted)
}
