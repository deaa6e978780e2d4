package peers

import (
	"fmt"
	"strings"
)

// Traefik is Traefik.
//
// Refuse and Static: its circuit breaker answers with a status and no body of ours, so
// that its answer is shorter than the others'. Stale: it has none. Queue: its
// inFlightReq refuses, it does not wait.
type Traefik struct{}

// Name returns "traefik".
func (Traefik) Name() string { return "traefik" }

// Version asks `traefik version`.
func (Traefik) Version() (string, error) { return version("traefik", "version") }

const traefikBreaker = `
    breaker:
      circuitBreaker:
        expression: "%s"
        checkPeriod: 100ms
        fallbackDuration: %s
        responseCode: %d`

// Command writes traefik.yaml and routes.yaml.
func (Traefik) Command(s Setup) ([]string, error) {
	chain, limits := "", ""
	switch s.Policy {
	case Proxy:
	case Refuse, Static:
		chain = "[breaker]"
		status := 200
		if s.Policy == Refuse {
			status = 503
		}
		limits = fmt.Sprintf(traefikBreaker, "ResponseCodeRatio(500, 600, 0, 600) > 0.5", "10m", status)
	case Guard:
		chain = "[limit, breaker]"
		limits = fmt.Sprintf(traefikBreaker, "NetworkErrorRatio() > 0.3 || ResponseCodeRatio(500, 600, 0, 600) > 0.5", "5s", 503) +
			fmt.Sprintf("\n    limit: {inFlightReq: {amount: %d}}", guardLimit)
	default:
		return nil, ErrCannot
	}
	var points, routers, services strings.Builder
	for i, r := range s.Routes {
		fmt.Fprintf(&points, "  e%d: {address: %q}\n", i, r.Listen)
		fmt.Fprintf(&routers, "    r%[1]d: {entryPoints: [e%[1]d], rule: \"PathPrefix(`/`)\", service: s%[1]d", i)
		if chain != "" {
			fmt.Fprintf(&routers, ", middlewares: %s", chain)
		}
		routers.WriteString("}\n")
		fmt.Fprintf(&services, "    s%d: {loadBalancer: {serversTransport: t, servers: [{url: \"http://%s\"}]}}\n", i, r.Upstream)
	}
	timeouts := ""
	if s.Policy == Guard {
		timeouts = ", forwardingTimeouts: {responseHeaderTimeout: " + guardSecond + "}"
	}
	middlewares := ""
	if limits != "" {
		middlewares = "  middlewares:" + limits + "\n"
	}
	routes, err := s.write("routes.yaml", fmt.Sprintf(
		"http:\n  routers:\n%s%s  services:\n%s  serversTransports:\n    t: {maxIdleConnsPerHost: %d%s}\n",
		&routers, middlewares, &services, keptIdle, timeouts))
	if err != nil {
		return nil, err
	}
	path, err := s.write("traefik.yaml", fmt.Sprintf(
		"global: {checkNewVersion: false, sendAnonymousUsage: false}\nlog: {level: ERROR}\n"+
			"entryPoints:\n%sproviders: {file: {filename: %q}}\n", &points, routes))
	return []string{"traefik", "--configFile=" + path}, err
}
