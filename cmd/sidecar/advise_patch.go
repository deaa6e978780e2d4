package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// writePatch writes one file with the patches of all dependencies.
func writePatch(out io.Writer, all []advised) error {
	var whole yaml.Node
	for i := range all {
		a := &all[i]
		var one yaml.Node
		if yaml.Unmarshal([]byte(a.Sizing.Patch), &one) != nil || len(one.Content) == 0 || one.Content[0].Kind != yaml.MappingNode {
			return fmt.Errorf("the patch of %s cannot be read: ask with the version of sidecar that runs", a.Name)
		}
		if i == 0 {
			whole = one
			continue
		}
		merge(whole.Content[0], one.Content[0])
	}
	if len(all) > 1 {
		patchBudget(whole.Content[0], all)
	}
	enc := yaml.NewEncoder(out)
	enc.SetIndent(2)
	if err := enc.Encode(&whole); err != nil {
		return err
	}
	return enc.Close()
}

// patchBudget sets the shared budget of a file with several dependencies: each
// patch alone reckons with the others as they are. With a budget every bulkhead
// is written out, since a default may not fit in.
func patchBudget(file *yaml.Node, all []advised) {
	permits, _, why := budget(all)
	now := 0
	for i := range all {
		now += all[i].permits
	}
	if why == "" && permits <= now {
		return
	}
	for i, d := range valueAt(file, "dependencies").Content {
		put(section(d, "bulkhead"), "max_concurrent", newPermits(&all[i]))
	}
	put(section(file, "limits"), "max_concurrent", permits)
}

// newPermits returns the permits that a dependency will have.
func newPermits(a *advised) int {
	for _, s := range a.Sizing.Suggestions {
		if n, err := strconv.Atoi(s.Suggested); err == nil && s.Key == "bulkhead.max_concurrent" {
			return n
		}
	}
	for _, f := range a.Findings {
		if n, err := strconv.Atoi(f.Suggested); err == nil && f.Key == "bulkhead.max_concurrent" {
			return n
		}
	}
	return a.permits
}

// merge adds a file's dependencies to another's, and the sections that this one
// lacks.
func merge(into, from *yaml.Node) {
	for i := 0; i < len(from.Content); i += 2 {
		key, v := from.Content[i], from.Content[i+1]
		if key.Value == "dependencies" {
			list := valueAt(into, key.Value)
			list.Content = append(list.Content, v.Content...)
		} else if valueAt(into, key.Value) == nil {
			into.Content = slices.Insert(into.Content, 0, key, v)
		}
	}
}

// section returns the mapping at a key, a new one where there is none.
func section(m *yaml.Node, key string) *yaml.Node {
	if valueAt(m, key) == nil {
		m.Content = append(m.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, &yaml.Node{Kind: yaml.MappingNode})
	}
	return valueAt(m, key)
}

// put sets a number in a mapping.
func put(m *yaml.Node, key string, n int) {
	if v := valueAt(m, key); v != nil {
		v.Value = strconv.Itoa(n)
		return
	}
	m.Content = append(m.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, &yaml.Node{Kind: yaml.ScalarNode, Value: strconv.Itoa(n)})
}

// valueAt returns what a mapping holds at a key, nil where it holds nothing.
func valueAt(m *yaml.Node, key string) *yaml.Node {
	for i := 0; i < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			return m.Content[i+1]
		}
	}
	return nil
}
