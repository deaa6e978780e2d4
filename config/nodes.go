package config

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// pair is one key of a mapping with its value, aliases not followed.
type pair struct {
	key   string
	at    *yaml.Node // the key as it is written
	value *yaml.Node
}

// resolve follows an alias to the node it stands for.
func resolve(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// mapping lists the keys of a mapping, merged ones (<<) included. It records a
// fault and returns false for any other kind of node.
func (d *decoder) mapping(n *yaml.Node, path string) ([]pair, bool) {
	n = resolve(n)
	if isNull(n) {
		return nil, true
	}
	if n.Kind != yaml.MappingNode {
		d.wrongType(n, path, "a mapping")
		return nil, false
	}
	if pairs, ok := d.merged[n]; ok {
		return pairs, true
	}
	if d.merging[n] {
		d.fault(n, path, "merges itself; name another mapping")
		return nil, false
	}
	d.merging[n] = true
	defer delete(d.merging, n)
	first := make(map[string]int)
	var pairs []pair
	var merges []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := resolve(n.Content[i]), n.Content[i+1]
		switch {
		case k.Kind != yaml.ScalarNode:
			d.fault(n.Content[i], path, "a key must be a plain text, got %s", describe(k))
		case k.ShortTag() == "!!merge":
			merges = append(merges, v)
		case first[k.Value] > 0:
			d.fault(n.Content[i], join(path, k.Value), "duplicate key, first set in line %d", first[k.Value])
		default:
			first[k.Value] = n.Content[i].Line
			pairs = append(pairs, pair{k.Value, n.Content[i], v})
		}
	}
	if len(merges) > 1 {
		d.fault(merges[1], join(path, "<<"), "duplicate key; merge several mappings as a list: <<: [*a, *b]")
	}
	for _, m := range merges {
		pairs = d.merge(pairs, m, path)
	}
	d.merged[n] = pairs
	return pairs, true
}

// merge adds the keys of a merge key's value that are not there yet.
func (d *decoder) merge(pairs []pair, n *yaml.Node, path string) []pair {
	n = resolve(n)
	sources := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		sources = n.Content
	}
	have := make(map[string]bool, len(pairs))
	for _, p := range pairs {
		have[p.key] = true
	}
	for _, s := range sources {
		from, _ := d.mapping(s, join(path, "<<"))
		for _, p := range from {
			if !have[p.key] {
				have[p.key] = true
				pairs = append(pairs, p)
			}
		}
	}
	return slices.Clip(pairs)
}

// wrongType records a node of another kind than expected.
func (d *decoder) wrongType(n *yaml.Node, path, want string) {
	d.fault(n, path, "must be %s, got %s", want, describe(n))
}

// describe names what a node holds, for "got …".
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode:
	default:
		return "something else"
	}
	switch n.ShortTag() {
	case "!!null":
		return "nothing"
	case "!!int", "!!float", "!!bool":
		if len(n.Value) < 40 && !strings.ContainsAny(n.Value, "\n\r") {
			return n.Value
		}
	}
	return quote(n.Value)
}
