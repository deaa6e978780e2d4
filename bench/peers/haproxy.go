package peers

import (
	"fmt"
	"strings"
)

// HAProxy is HAProxy.
//
// Refuse and Static: five failures in a row mark the server down, and HAProxy's
// own 503 or a return rule answers; a health check each ten minutes would mark it up. Stale: its cache
// never serves an answer beyond its age. Queue: maxconn of the server.
type HAProxy struct{}

// Name returns "haproxy".
func (HAProxy) Name() string { return "haproxy" }

// Version asks `haproxy -v`.
func (HAProxy) Version() (string, error) { return version("haproxy", "-v") }

const haproxyHead = `
global
  maxconn 8192
defaults
  mode http
  http-reuse always
  retries 0
  backlog 4096
  timeout connect 1s
  timeout client 1m
`

const haproxyMarksDown = "check inter 10m observe layer7 error-limit 5 on-error mark-down"

// Command writes haproxy.cfg.
func (HAProxy) Command(s Setup) ([]string, error) {
	timeout, queue, server, rule := "1m", "1m", "", ""
	switch s.Policy {
	case Proxy:
	case Refuse:
		server = haproxyMarksDown
	case Static:
		server = haproxyMarksDown
		rule = "http-request return status 200 content-type application/octet-stream string " + staticBody +
			" if { nbsrv(b%[1]d) lt 1 }"
	case Queue:
		server = "maxconn 1"
	case Guard:
		server = fmt.Sprintf("maxconn %d maxqueue 10 ", guardLimit) + haproxyMarksDown
		timeout, queue = guardSecond, "250ms"
	default:
		return nil, ErrCannot
	}
	var file strings.Builder
	file.WriteString(haproxyHead)
	fmt.Fprintf(&file, "  timeout server %s\n  timeout queue %s\n", timeout, queue)
	for i, r := range s.Routes {
		fmt.Fprintf(&file, "frontend f%[1]d\n  bind %[2]s\n  default_backend b%[1]d\n", i, r.Listen)
		if rule != "" {
			fmt.Fprintf(&file, "  "+rule+"\n", i)
		}
		fmt.Fprintf(&file, "backend b%[1]d\n  server s%[1]d %[2]s pool-max-conn %[3]d %[4]s\n", i, r.Upstream, keptIdle, server)
	}
	path, err := s.write("haproxy.cfg", file.String())
	return []string{"haproxy", "-db", "-f", path}, err
}
