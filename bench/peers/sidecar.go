package peers

import (
	"fmt"
	"os/exec"
	"strings"
)

// Sidecar is the sidecar, built as it is released. Its access log is off, as
// those of all peers are, unless it is the logging one: that keeps the
// sidecar's default, a line for each call that is not answered by the upstream,
// and differs in the workloads where there are such calls.
type Sidecar struct {
	path    string
	logging bool
	other   bool
}

// Name tells them apart.
func (s Sidecar) Name() string {
	if s.logging {
		return "sidecar-logging"
	}
	if s.other {
		return "sidecar-other"
	}
	return "sidecar"
}

// Version returns what `sidecar version` prints.
func (s Sidecar) Version() (string, error) {
	out, err := exec.Command(s.path, "version").Output() //nolint:gosec // the program that was just built
	return strings.TrimSpace(string(out)), err
}

// ReadyPath is where the sidecar tells that it is ready.
func (Sidecar) ReadyPath() string { return "/readyz" }

// sidecarArmed is what every policy but the last two switches on: breaker,
// bulkhead, deadline and retries. Metrics are always on.
const sidecarArmed = `
  timeout: 10s
  bulkhead: {max_concurrent: 512, max_waiting: 64}
  retry: {max_retries: 2}`

// sidecarPolicy is each policy as YAML, in the place of a dependency's keys.
var sidecarPolicy = map[Policy]string{
	Proxy:  sidecarArmed,
	Refuse: sidecarArmed + sidecarOpens,
	Static: sidecarArmed + sidecarOpens + `
  fallback:
    - static: {headers: {Content-Type: application/octet-stream}, body: ` + staticBody + `}`,
	Store: sidecarArmed + sidecarOpens + sidecarStale,
	Stale: sidecarArmed + sidecarOpens + sidecarStale,
	Queue: `
  timeout: 1m
  bulkhead: {max_concurrent: 1, max_waiting: 2000, queue_timeout: 0s}`,
	Guard: `
  timeout: ` + guardSecond + `
  bulkhead: {max_concurrent: ` + fmt.Sprint(guardLimit) + `}
  breaker: {consecutive_failures: 1, cooldown: 5s}`,
}

const (
	sidecarOpens = `
  breaker: {consecutive_failures: 5, cooldown: 10m}`
	sidecarStale = `
  fallback:
    - stale: {max_age: 1h}`
)

// Command writes sidecar.yaml.
func (s Sidecar) Command(setup Setup) ([]string, error) {
	degraded := setup.Policy == Refuse || setup.Policy == Static || setup.Policy == Stale
	access := "off"
	if s.logging {
		if !degraded {
			return nil, ErrCannot
		}
		access = "degraded"
	}
	var file strings.Builder
	fmt.Fprintf(&file, "admin: {listen: %q, pprof: %t}\nmetrics: {listen: %q}\nlog: {access: %s}\ndefaults:%s\ndependencies:\n",
		setup.Admin, setup.Profile, setup.Metrics, access, sidecarPolicy[setup.Policy])
	for i, r := range setup.Routes {
		fmt.Fprintf(&file, "  - name: d%d\n    listen: %q\n    upstream: http://%s\n", i, r.Listen, r.Upstream)
		if r.Keep {
			file.WriteString("    fallback:\n    - stale: {max_age: 1h}\n")
		}
	}
	path, err := setup.write("sidecar.yaml", file.String())
	return []string{s.path, "run", "-c", path}, err
}
