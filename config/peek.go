package config

import "go.yaml.in/yaml/v3"

// Listeners returns the addresses of the admin and the metrics listener that a
// file sets, else the default ones. Other faults of the file do not matter: a
// process that refused it may still run with the one before.
func Listeners(path string) (admin, metrics string) {
	c := Default()
	admin, metrics = c.Admin.Listen, c.Metrics.Listen
	data, err := readBounded(path, mostFile)
	if err != nil {
		return admin, metrics
	}
	var file map[string]yaml.Node
	_ = yaml.Unmarshal(data, &file) // what could be read is used
	for key, listen := range map[string]*string{"admin": &admin, "metrics": &metrics} {
		var section struct{ Listen string }
		n := file[key]
		_ = n.Decode(&section)
		if _, wrong := parseAddress(section.Listen); wrong == "" {
			*listen = section.Listen
		}
	}
	return admin, metrics
}
