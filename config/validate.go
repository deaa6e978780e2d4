package config

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// validate looks for faults between the values of a decoded configuration.
func (d *decoder) validate(c *Config, p Process) {
	d.decoded = len(d.faults)
	d.checkNames(c)
	d.checkListeners(c)
	for i := range c.Dependencies {
		dep := &c.Dependencies[i]
		path := item("dependencies", i)
		levels := []string{path, "defaults"}
		d.checkBreaker(&dep.Breaker.Rules, levels)
		if s := dep.Shadow; s != nil && s.Breaker != nil {
			d.checkBreaker(s.Breaker, append([]string{path + ".shadow"}, levels...))
		}
		d.checkPolicy(&dep.Policy, levels)
		for j := range dep.Routes {
			route := append([]string{item(path+".routes", j)}, levels...)
			d.checkPolicy(&dep.Routes[j].Policy, route)
		}
		d.checkUpstream(dep, levels)
	}
	d.checkLimits(c, p)
	if c.Cache.Dir != "" && !filepath.IsAbs(c.Cache.Dir) {
		c.Cache.Dir = filepath.Join(d.dir, c.Cache.Dir)
	}
}

func (d *decoder) checkNames(c *Config) {
	first := make(map[string]int)
	for i, dep := range c.Dependencies {
		at := item("dependencies", i) + ".name"
		if _, ok := d.set[at]; !ok || d.faulty(at) {
			continue
		}
		if wrong := nameFault(dep.Name); wrong != "" {
			d.faultAt(d.find(at), at, "%s", wrong)
			continue
		}
		folded := strings.ToLower(strings.ToUpper(dep.Name))
		j, ok := first[folded]
		if !ok {
			first[folded] = i
			continue
		}
		earlier := c.Dependencies[j].Name
		note := ""
		if earlier != dep.Name {
			note = ", which differs from " + quote(dep.Name) + " only in case"
		}
		d.faultAt(d.find(at), at, "name %s is already taken by dependencies[%d]%s", quote(earlier), j, note)
	}
}

func (d *decoder) checkBreaker(b *Rules, levels []string) {
	if b.Backoff.Factor > 1 && b.Backoff.Max < b.Cooldown {
		d.blame(levels, []string{"breaker.backoff.max", "breaker.cooldown", "breaker.backoff.factor"},
			"backoff.max must be at least the cooldown, got a max of %s and a cooldown of %s",
			FormatDuration(b.Backoff.Max), FormatDuration(b.Cooldown))
	}
}

func (d *decoder) checkPolicy(p *Policy, levels []string) {
	if b := p.Retry.Backoff; b.Base > b.Max {
		d.blame(levels, []string{"retry.backoff.base", "retry.backoff.max"},
			"base must be at most max, got a base of %s and a max of %s", FormatDuration(b.Base), FormatDuration(b.Max))
	}
}

// spareFiles are the open files kept for listeners, the log, the admin page
// and connections that are about to close.
const spareFiles = 100

// checkLimits checks what all dependencies need together. A running call holds
// a connection of its caller and one to its upstream, a waiting call one.
func (d *decoder) checkLimits(c *Config, p Process) {
	concurrent, files := 0, uint64(spareFiles)
	for _, dep := range c.Dependencies {
		concurrent += dep.Bulkhead.MaxConcurrent
		files += 2*uint64(dep.Bulkhead.MaxConcurrent) + uint64(dep.Bulkhead.MaxWaiting) //nolint:gosec // neither is negative
	}
	const key = "limits.max_concurrent"
	if limit := c.Limits.MaxConcurrent; limit > 0 && concurrent > limit {
		d.faultAt(d.find(key), key, "must be at least %d, what the max_concurrent of all bulkheads add up to, got %d; raise it or lower them",
			concurrent, limit)
	}
	if p.OpenFiles > 0 && files > p.OpenFiles {
		d.faultAt(d.find("dependencies"), "dependencies",
			"the bulkheads may need %d open files, this process may open %d; raise `ulimit -n` or lower max_concurrent and max_waiting",
			files, p.OpenFiles)
	}
}

// byPlace sorts keys by the line they were set in, then by name.
func (d *decoder) byPlace(path string, keys []string) {
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(d.find(join(path, a)).line, d.find(join(path, b)).line), cmp.Compare(a, b))
	})
}

// Warnings lists settings that are valid but hardly meant, one line each, in
// the order of the dependencies.
func (c *Config) Warnings() []string {
	var w []string
	if len(c.Dependencies) == 0 {
		w = append(w, "dependencies: none is configured, so nothing is forwarded")
	}
	if c.Cache.MaxBytes > 0 && c.Cache.MaxObjectBytes > c.Cache.MaxBytes {
		w = append(w, "cache.max_object_bytes: is above cache.max_bytes, which bounds each answer too")
	}
	for i := range c.Dependencies {
		dep := &c.Dependencies[i]
		prefix := "dependency " + quote(dep.Name) + ": "
		for _, text := range dep.warnings() {
			w = append(w, prefix+text)
		}
	}
	return w
}

func (d *Dependency) warnings() []string {
	var w []string
	if d.Breaker.Mode != "off" && d.Breaker.neverByRatio() {
		w = append(w, "the breaker can never open by ratio: breaker.min_calls is above the calls in breaker.window")
	}
	if s := d.Shadow; s != nil && s.Breaker != nil && s.Breaker.neverByRatio() {
		w = append(w, "the shadow's breaker can never open by ratio: shadow.breaker.min_calls is above the calls in shadow.breaker.window")
	}
	w = append(w, d.Policy.warnings("")...)
	for i := range d.Routes {
		for _, text := range d.Routes[i].warnings(item("routes", i) + ".") {
			if !slices.Contains(w, text) && !slices.Contains(w, strings.Replace(text, item("routes", i)+".", "", 1)) {
				w = append(w, text)
			}
		}
	}
	return w
}

// neverByRatio reports whether no ratio can open the circuit, and nothing else
// does for failures.
func (r *Rules) neverByRatio() bool {
	return r.Window.Calls > 0 && r.MinCalls > r.Window.Calls && r.ConsecutiveFailures == 0
}

func (p *Policy) warnings(prefix string) []string {
	var w []string
	if s := p.Failure.Statuses; len(s) > 0 && !slices.ContainsFunc(s, func(t StatusTerm) bool { return !t.Not }) {
		w = append(w, prefix+"failure.statuses: has exceptions only, so no status is a failure")
	}
	if p.Retry.MaxRetries > 0 && len(p.Retry.On) == 0 {
		w = append(w, prefix+"retry.on: is empty, so nothing is retried")
	}
	if p.Timeout > 0 && p.Timeout < time.Millisecond {
		w = append(w, prefix+"timeout: "+FormatDuration(p.Timeout)+" is hardly enough for any call")
	}
	for i, f := range p.Fallback {
		if s := f.Static; s != nil && len(s.Body) > 0 && (s.Status == 204 || s.Status == 205 || s.Status == 304) {
			w = append(w, prefix+item("fallback", i)+".static: a response of this status has no body, the configured one is never sent")
		}
	}
	return w
}
