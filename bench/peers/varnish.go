package peers

import (
	"fmt"
	"strings"
)

// Varnish is Varnish Cache. It compiles its configuration, for which it needs
// a C compiler.
//
// Refuse, Static and Stale: a health probe every half second finds the upstream
// sick; then vcl_synth answers, or a copy within its grace. Queue: it waits
// for a backend since version 7.6 alone.
type Varnish struct{}

// Name returns "varnish".
func (Varnish) Name() string { return "varnish" }

// Version asks `varnishd -V`.
func (Varnish) Version() (string, error) { return version("varnishd", "-V") }

const varnishProbe = `
  .probe = { .request = "GET / HTTP/1.1" "Host: probe" "Connection: close"; .interval = 500ms; .timeout = 400ms; .window = 2; .threshold = 2; .initial = 2; }`

const varnishCache = `
sub vcl_backend_response {
  if (beresp.status >= 500) { return (abandon); }
  set beresp.ttl = 1s;
  set beresp.grace = 1h;
}
`

// varnishPolicy is what follows vcl_recv.
var varnishPolicy = map[Policy]string{
	Proxy:  "",
	Refuse: "",
	Static: `
sub vcl_synth {
  set resp.http.Content-Type = "application/octet-stream";
  set resp.body = "` + staticBody + `";
  return (deliver);
}
`,
	Stale: varnishCache,
	Guard: varnishCache,
}

// Command writes default.vcl.
func (Varnish) Command(s Setup) ([]string, error) {
	policy, can := varnishPolicy[s.Policy]
	if !can {
		return nil, ErrCannot
	}
	probe, limits, then := "", "", "return (hash);"
	switch s.Policy {
	case Proxy:
		then = "return (pass);"
	case Refuse:
		probe, then = varnishProbe, "if (!std.healthy(req.backend_hint)) { return (synth(503)); }\n  return (pass);"
	case Static:
		probe, then = varnishProbe, "if (!std.healthy(req.backend_hint)) { return (synth(200)); }\n  return (pass);"
	case Stale:
		probe = varnishProbe
	case Guard:
		probe = varnishProbe
		limits = fmt.Sprintf(" .max_connections = %d; .first_byte_timeout = %s;", guardLimit, guardSecond)
	}
	var file, choose strings.Builder
	args := []string{"varnishd", "-F", "-j", "none", "-n", s.Dir + "/work", "-f", s.Dir + "/default.vcl", "-s", "malloc,64m"}
	file.WriteString("vcl 4.1;\nimport std;\n")
	for i, r := range s.Routes {
		fmt.Fprintf(&file, "backend b%d { .host = \"127.0.0.1\"; .port = %q;%s%s\n}\n", i, port(r.Upstream), limits, probe)
		fmt.Fprintf(&choose, "  if (local.socket == \"a%[1]d\") { set req.backend_hint = b%[1]d; }\n", i)
		if s.Policy == Guard && !r.Keep {
			fmt.Fprintf(&choose, "  if (local.socket == \"a%d\") { return (pass); }\n", i)
		}
		args = append(args, "-a", fmt.Sprintf("a%d=%s", i, r.Listen))
	}
	fmt.Fprintf(&file, "sub vcl_recv {\n%s  %s\n}\n%s", &choose, then, policy)
	_, err := s.write("default.vcl", file.String())
	return args, err
}
