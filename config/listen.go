package config

import (
	"net"
	"net/netip"
	"net/url"
	"strings"

	"go.yaml.in/yaml/v3"
)

// address is a listen address taken apart.
type address struct {
	host string     // lower case; "" for every interface
	ip   netip.Addr // invalid for a host name
	port int
}

// parseAddress reads host:port. The text says what is wrong with it.
func parseAddress(s string) (a address, wrong string) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return a, "must be host:port such as 127.0.0.1:7001"
	}
	a.host = strings.ToLower(host)
	if ip, err := netip.ParseAddr(host); err == nil {
		a.ip = ip.Unmap()
	} else if strings.ContainsFunc(host, notInHostName) {
		return a, "must be host:port with an IP address or a host name"
	}
	n, ok := decimal(port)
	if !ok || n < 1 || n > 65535 {
		return a, "must have a port between 1 and 65535"
	}
	a.port = n
	return a, ""
}

func notInHostName(r rune) bool {
	return r != '-' && r != '_' && r != '.' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
}

// loopback reports whether only this machine can reach the address.
func (a address) loopback() bool {
	return a.host == "localhost" || a.ip.IsValid() && a.ip.IsLoopback()
}

// wildcard reports whether the address is every interface. Go listens on
// 0.0.0.0 and on [::] for both IP versions.
func (a address) wildcard() bool {
	return a.host == "" || a.ip.IsValid() && a.ip.IsUnspecified()
}

// clashes reports whether two listeners cannot both be bound.
func (a address) clashes(b address) bool {
	if a.port != b.port {
		return false
	}
	if a.wildcard() || b.wildcard() || a.host == b.host || a.ip.IsValid() && a.ip == b.ip {
		return true
	}
	return a.host == "localhost" && b.isLocalhost() || b.host == "localhost" && a.isLocalhost()
}

// isLocalhost reports whether the name localhost may stand for the address.
func (a address) isLocalhost() bool {
	return a.ip == netip.AddrFrom4([4]byte{127, 0, 0, 1}) || a.ip == netip.IPv6Loopback()
}

// listener is one address that the process will bind.
type listener struct {
	address
	key, text string
}

// checkListeners checks every listen address by itself and against the others.
func (d *decoder) checkListeners(c *Config) {
	var all []listener
	add := func(key, text string, remote bool, remedy string) {
		if d.faulty(key) {
			return
		}
		a, wrong := parseAddress(text)
		if wrong != "" {
			d.faultAt(d.find(key), key, "%s, got %s", wrong, quote(text))
			return
		}
		if !remote && !a.loopback() {
			d.faultAt(d.find(key), key, "must be a loopback address such as 127.0.0.1:%d, got %s%s", a.port, quote(text), remedy)
			return
		}
		l := listener{a, key, text}
		for _, o := range all {
			if a.clashes(o.address) {
				d.clash(l, o)
				break
			}
		}
		all = append(all, l)
	}
	add("admin.listen", c.Admin.Listen, false, "")
	add("metrics.listen", c.Metrics.Listen, true, "")
	for i, dep := range c.Dependencies {
		key := item("dependencies", i) + ".listen"
		if _, ok := d.set[key]; !ok {
			continue // reported as missing
		}
		add(key, dep.Listen, dep.AllowRemote, "; allow_remote: true permits it")
	}
}

// clash records two listeners on one port, at the later one unless only the
// earlier one was set.
func (d *decoder) clash(l, o listener) {
	_, laterSet := d.set[l.key]
	if _, ok := d.set[o.key]; ok && !laterSet {
		l, o = o, l
	}
	d.faultAt(d.find(l.key), l.key, "port %d is already taken by %s (%s)", l.port, o.key, o.text)
}

// upstream takes the URL of a service. No message holds any of its text: what
// is malformed may be a part of a password.
func (d *decoder) upstream(n *yaml.Node, p **url.URL, path string) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
		d.fault(n, path, "must be a URL such as https://payments.internal:8443/base")
		return
	}
	u, err := url.Parse(n.Value)
	switch {
	case err != nil:
		d.fault(n, path, "must be a valid URL such as https://payments.internal:8443/base (special characters in user and password are written %%XX)")
	case u.Scheme != "http" && u.Scheme != "https":
		d.fault(n, path, "must begin with http:// or https://, such as https://payments.internal:8443/base")
	case u.Hostname() == "":
		d.fault(n, path, "must have a host, such as https://payments.internal:8443/base")
	case strings.HasSuffix(u.Host, ":") || u.Port() != "" && !validPort(u.Port()):
		d.fault(n, path, "must have a port between 1 and 65535, or none")
	case strings.Contains(n.Value, "?") || strings.Contains(n.Value, "#"):
		d.fault(n, path, "must have no query (?) and no fragment (#); the caller's query is passed on")
	default:
		// Once more from its canonical text, so that two spellings are equal.
		if again, err := url.Parse(u.String()); err == nil {
			u = again
		}
		*p = u
	}
}

func validPort(s string) bool {
	n, ok := decimal(s)
	return ok && 1 <= n && n <= 65535
}
