package peers

import (
	"fmt"
	"strings"
)

// Caddy is Caddy.
//
// Refuse, Static and Guard: passive health checks take the upstream out, and
// handle_errors answers. Stale and Queue: it has neither.
type Caddy struct{}

// Name returns "caddy".
func (Caddy) Name() string { return "caddy" }

// Version asks `caddy version`.
func (Caddy) Version() (string, error) { return version("caddy", "version") }

// caddyPolicy is what reverse_proxy holds beside its transport.
var caddyPolicy = map[Policy]string{
	Proxy:  "",
	Refuse: caddyOpens,
	Static: caddyOpens,
	Guard: `
		fail_duration 5s
		max_fails 5
		unhealthy_request_count ` + fmt.Sprint(guardLimit),
}

const caddyOpens = `
		fail_duration 10m
		max_fails 5
		unhealthy_status 5xx`

// Command writes Caddyfile.
func (Caddy) Command(s Setup) ([]string, error) {
	policy, can := caddyPolicy[s.Policy]
	if !can {
		return nil, ErrCannot
	}
	timeout := ""
	if s.Policy == Guard {
		timeout = "\n\t\t\tresponse_header_timeout " + guardSecond
	}
	answer := `respond "" 503`
	if s.Policy == Static {
		answer = fmt.Sprintf("respond %q 200", staticBody)
	}
	var file strings.Builder
	file.WriteString("{\n\tadmin off\n\tauto_https off\n\tlog {\n\t\toutput discard\n\t}\n}\n")
	for _, r := range s.Routes {
		fmt.Fprintf(&file, `http://:%s {
	bind 127.0.0.1
	reverse_proxy %s {%s
		transport http {
			compression off
			keepalive_idle_conns_per_host %d%s
		}
	}
	handle_errors {
		%s
	}
}
`, port(r.Listen), r.Upstream, policy, keptIdle, timeout, answer)
	}
	path, err := s.write("Caddyfile", file.String())
	// Caddy saves what it runs in these folders.
	folders := []string{"env", "XDG_CONFIG_HOME=" + s.Dir, "XDG_DATA_HOME=" + s.Dir}
	return append(folders, "caddy", "run", "--adapter", "caddyfile", "--config", path), err
}
