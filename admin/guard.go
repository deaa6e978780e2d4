package admin

import (
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

const (
	// policy lets an answer load and do nothing.
	policy = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	// pagePolicy lets the page load its own scripts and style sheets and ask the
	// API. Nothing inline, nothing from elsewhere, and no text becomes markup.
	pagePolicy = policy + "; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:" +
		"; require-trusted-types-for 'script'; trusted-types 'none'"
)

// harden sets the headers that keep answers out of caches, frames and other
// sites' pages.
func harden(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", policy)
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		next.ServeHTTP(w, r)
	})
}

// onlyLoopbackHosts refuses requests for a host that is not this machine. A
// page of another site can make its own name resolve to 127.0.0.1, but cannot
// keep the browser from sending that name.
func onlyLoopbackHosts(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !loopback(r.Host) {
			writeProblem(w, http.StatusForbidden, "the Host is not a loopback name; use 127.0.0.1, [::1] or localhost")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// loopback reports whether a Host header names this machine.
func loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	} else if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.Unmap().IsLoopback()
}

// onlySameOrigin refuses requests of other origins that could change
// something. Programs, which send neither Origin nor Sec-Fetch-Site, pass.
func onlySameOrigin(next http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if protection.Check(r) != nil || !safe(r.Method) && foreign(r) {
			writeProblem(w, http.StatusForbidden, "the request comes from another origin; use the sidecar's own page or a program")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// safe reports whether a method only reads (RFC 9110 §9.2.1).
func safe(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// foreign reports whether the request names an origin that is not exactly its
// own. [http.CrossOriginProtection] does not compare the scheme.
func foreign(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return origin != "" && !strings.EqualFold(origin, scheme+"://"+r.Host)
}

// methods answers each method of one address; HEAD as GET, others with 405.
type methods map[string]http.HandlerFunc

func get(h http.HandlerFunc) methods  { return methods{http.MethodGet: h} }
func post(h http.HandlerFunc) methods { return methods{http.MethodPost: h} }

// ServeHTTP implements [http.Handler].
func (m methods) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := m[r.Method]
	if h == nil && r.Method == http.MethodHead {
		h = m[http.MethodGet]
	}
	if h != nil {
		h(w, r)
		return
	}
	allowed := slices.Sorted(maps.Keys(m))
	if m[http.MethodGet] != nil {
		allowed = append(allowed, http.MethodHead)
	}
	allow := strings.Join(allowed, ", ")
	w.Header().Set("Allow", allow)
	writeProblem(w, http.StatusMethodNotAllowed, "this address answers "+allow)
}
