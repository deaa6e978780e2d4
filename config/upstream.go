package config

import (
	"crypto/sha256"
	"path/filepath"
)

// checkUpstream looks for faults between how an upstream is spoken to and what
// it is.
func (d *decoder) checkUpstream(dep *Dependency, levels []string) {
	if dep.Upstream == nil {
		return
	}
	secure := dep.Upstream.Scheme == "https"
	switch {
	case dep.Protocol == "h2" && !secure:
		d.blame(levels, []string{"protocol"}, "h2 needs an https upstream; use h2c for HTTP/2 without TLS")
	case dep.Protocol == "h2c" && secure:
		d.blame(levels, []string{"protocol"}, "h2c needs an http upstream; use h2 for HTTP/2 over TLS")
	}
	if (dep.TLS.CertFile == "") != (dep.TLS.KeyFile == "") {
		d.blame(levels, []string{"tls.cert_file", "tls.key_file"}, "cert_file and key_file belong together; set both or neither")
	}
}

// resolveFiles makes the paths independent of the working folder, and sees
// whether there is a file at each. What is in it is for the TLS library to say.
func (d *decoder) resolveFiles(t *TLS, path string) {
	for key, file := range map[string]*string{"ca_file": &t.CAFile, "cert_file": &t.CertFile, "key_file": &t.KeyFile} {
		at := join(path, key)
		if _, ok := d.set[at]; !ok || *file == "" {
			continue
		}
		if !filepath.IsAbs(*file) {
			*file = filepath.Join(d.dir, *file)
		}
		if _, err := d.intake.read(*file, mostBody); err != nil {
			d.faultAt(d.find(at), at, "must be a readable file: %v", err)
		}
	}
}

// contentOf stands for what the files of a TLS section hold; zero where it
// names none.
func (d *decoder) contentOf(t TLS) [sha256.Size]byte {
	if t.CAFile == "" && t.CertFile == "" && t.KeyFile == "" {
		return [sha256.Size]byte{}
	}
	return d.intake.digest(t.CAFile, t.CertFile, t.KeyFile)
}
