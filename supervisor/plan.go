package supervisor

import (
	"slices"

	"sidecar/config"
	"sidecar/proxy"
)

// plan is what differs between the configuration in force and the next one.
type plan struct {
	kept    map[string]*proxy.Dependency // by name
	changed map[string]bool              // of those kept
	removed []*proxy.Dependency
}

// compare says what differs. A dependency is the same as long as its name is.
func compare(now *running, next *config.Config) plan {
	p := plan{kept: map[string]*proxy.Dependency{}, changed: map[string]bool{}}
	for _, d := range now.dependencies {
		i := slices.IndexFunc(next.Dependencies, func(n config.Dependency) bool { return n.Name == d.config.Name })
		if i < 0 {
			p.removed = append(p.removed, d.proxy)
			continue
		}
		p.kept[d.config.Name] = d.proxy
		p.changed[d.config.Name] = !next.Dependencies[i].Equal(d.config)
	}
	return p
}

// The listeners that no dependency owns.
const (
	ownerAdmin   = "admin"
	ownerMetrics = "metrics"
)

type listener struct{ owner, address string }

// listeners lists every address that a configuration serves, with the name of
// who needs it.
func listeners(c *config.Config) []listener {
	all := []listener{{ownerAdmin, c.Admin.Listen}, {ownerMetrics, c.Metrics.Listen}}
	for _, d := range c.Dependencies {
		all = append(all, listener{"dependency " + d.Name, d.Listen})
	}
	return all
}
