package advice

import (
	"bytes"
	"net"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"sidecar/config"
)

// patchOrder is the order of a patch's keys: that of the documentation.
var patchOrder = []string{
	"timeout", "attempt_timeout", "breaker.window", "breaker.min_calls", "breaker.cooldown", "breaker.backoff.factor",
	"breaker.probes", "breaker.ramp", "bulkhead.max_concurrent", "bulkhead.max_waiting", "bulkhead.queue_timeout",
	"failure.statuses", "failure.grpc_statuses", "retry.max_retries", "retry.budget.ratio", "retry.budget.min_per_second",
}

// patchable reports whether a patch can hold a key: a file cannot name one
// entry of a list.
func patchable(key string) bool { return !strings.HasPrefix(key, "routes[") }

// fit makes the changes agree with each other and with what stays: a call's
// timeout is no shorter than its attempt's, a window holds min_calls.
func (s *subject) fit(changes map[string]string) {
	whole, attempt := changes["timeout"], changes["attempt_timeout"]
	if w, err := time.ParseDuration(whole); err == nil {
		a, failed := time.ParseDuration(attempt)
		if failed != nil {
			a = s.d.AttemptTimeout
		}
		if a > w {
			changes["attempt_timeout"] = whole
		}
	}
	if n, err := strconv.Atoi(changes["breaker.window"]); err == nil && changes["breaker.min_calls"] == "" && s.d.Breaker.MinCalls > n {
		changes["breaker.min_calls"] = strconv.Itoa(n)
	}
}

// patch writes the changes as a configuration file that is complete by itself.
// Changes of a route are not in it, see patchable.
func (s *subject) patch(changes map[string]string) string {
	root := &yaml.Node{Kind: yaml.MappingNode}
	s.patchProcess(root, changes)
	dependency := mapping("name", s.d.Name, "listen", s.d.Listen)
	if s.d.AllowRemote {
		set(dependency, "allow_remote", "true")
	}
	upstream := *s.d.Upstream
	if upstream.User != nil {
		upstream.User = nil
		dependency.HeadComment = "The upstream's user information is left out: keep yours."
	}
	dependency.Content = append(dependency.Content, text("upstream"), text(upstream.String()))
	for _, key := range patchOrder {
		if v := changes[key]; v != "" {
			set(dependency, key, v)
		}
	}
	list := &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{dependency}}
	root.Content = append(root.Content, text("dependencies"), list)
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(root); err != nil {
		panic(err) // nodes of our own making always encode
	}
	return out.String()
}

// patchProcess adds the keys outside the dependency: what is suggested of them,
// and the listeners where their defaults would collide with the dependency's.
func (s *subject) patchProcess(root *yaml.Node, changes map[string]string) {
	_, port, _ := net.SplitHostPort(s.d.Listen)
	for _, l := range []struct{ key, own, usual string }{
		{"admin.listen", s.c.Admin.Listen, config.Default().Admin.Listen},
		{"metrics.listen", s.c.Metrics.Listen, config.Default().Metrics.Listen},
	} {
		if strings.HasSuffix(l.usual, ":"+port) {
			set(root, l.key, strconv.Quote(l.own))
		}
	}
	for _, key := range []string{"log.report_interval", "limits.max_concurrent"} {
		if v := changes[key]; v != "" {
			set(root, key, v)
		}
	}
}

// set puts a value, written in YAML, at a key with dots.
func set(m *yaml.Node, key, value string) {
	first, rest, nested := strings.Cut(key, ".")
	if !nested {
		var v yaml.Node
		if err := yaml.Unmarshal([]byte(value), &v); err != nil {
			panic(err) // suggestions are written by this package
		}
		m.Content = append(m.Content, text(first), v.Content[0])
		return
	}
	for i := 0; i < len(m.Content); i += 2 {
		if m.Content[i].Value == first {
			set(m.Content[i+1], rest, value)
			return
		}
	}
	inner := &yaml.Node{Kind: yaml.MappingNode}
	m.Content = append(m.Content, text(first), inner)
	set(inner, rest, value)
}

// mapping is a mapping of texts.
func mapping(pairs ...string) *yaml.Node {
	m := &yaml.Node{Kind: yaml.MappingNode}
	for _, p := range pairs {
		m.Content = append(m.Content, text(p))
	}
	return m
}

// text is a string; the encoder quotes it where it must.
func text(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s} }
