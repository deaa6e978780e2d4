package config

import (
	"reflect"
	"slices"
)

// Changes are what differs between two configurations.
type Changes struct {
	Added, Removed, Changed []string // names of dependencies, in the order of the file that has them
	Settings                []string // process scalars such as "log.level"
}

// Compare says what is different in the next configuration.
func Compare(last, next *Config) Changes {
	var c Changes
	for _, d := range next.Dependencies {
		switch i := last.index(d.Name); {
		case i < 0:
			c.Added = append(c.Added, d.Name)
		case !d.Equal(last.Dependencies[i]):
			c.Changed = append(c.Changed, d.Name)
		}
	}
	for _, d := range last.Dependencies {
		if next.index(d.Name) < 0 {
			c.Removed = append(c.Removed, d.Name)
		}
	}
	before := map[string]any{}
	eachProcessKey(last, func(path string, _ field, v reflect.Value) { before[path] = v.Interface() })
	eachProcessKey(next, func(path string, _ field, v reflect.Value) {
		if before[path] != v.Interface() {
			c.Settings = append(c.Settings, path)
		}
	})
	return c
}

func (c *Config) index(name string) int {
	return slices.IndexFunc(c.Dependencies, func(d Dependency) bool { return d.Name == name })
}
