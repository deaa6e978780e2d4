package config

import "slices"

// unsupported are the settings that the format has and the sidecar does not
// obey yet. To obey one, delete its line.
var unsupported = []struct {
	key     string
	isSet   func(d *Dependency, p *Policy) bool
	onRoute bool // a route can set it
	remedy  string
}{
	{"protocol", func(d *Dependency, _ *Policy) bool { return d.Protocol == "h2" || d.Protocol == "h2c" }, false, "use auto or http1"},
	{"tls.ca_file", func(d *Dependency, _ *Policy) bool { return d.TLS.CAFile != "" }, false, "leave it out"},
	{"tls.cert_file", func(d *Dependency, _ *Policy) bool { return d.TLS.CertFile != "" }, false, "leave it out"},
	{"tls.key_file", func(d *Dependency, _ *Policy) bool { return d.TLS.KeyFile != "" }, false, "leave it out"},
	{"tls.server_name", func(d *Dependency, _ *Policy) bool { return d.TLS.ServerName != "" }, false, "leave it out"},
	{"tls.min_version", func(d *Dependency, _ *Policy) bool { return d.TLS.MinVersion != "1.2" }, false, `use "1.2"`},
	{"tls.insecure_skip_verify", func(d *Dependency, _ *Policy) bool { return d.TLS.InsecureSkipVerify }, false, "leave it out"},
	{"failure.grpc_statuses", func(_ *Dependency, p *Policy) bool { return !defaultGRPC(p.Failure.GRPCStatuses) }, true, "leave it out"},
}

// checkSupported records what a dependency and its routes set of them.
func (d *decoder) checkSupported(dep *Dependency, path string) {
	for _, u := range unsupported {
		keys := []string{u.key}
		levels := []string{path, "defaults"}
		if u.isSet(dep, &dep.Policy) {
			d.blame(levels, keys, "not supported yet; %s", u.remedy)
		}
		for j := range dep.Routes {
			if u.onRoute && u.isSet(dep, &dep.Routes[j].Policy) {
				d.blame(append([]string{item(path+".routes", j)}, levels...), keys, "not supported yet; %s", u.remedy)
			}
		}
	}
}

func defaultGRPC(names []string) bool {
	want := slices.Sorted(slices.Values(builtin().Failure.GRPCStatuses))
	return slices.Equal(slices.Compact(slices.Sorted(slices.Values(names))), want)
}
