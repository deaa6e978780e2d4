// Package config is what an operator writes: the structs behind the YAML file,
// a strict reader that reports every fault of a file at once, and the effective
// configuration written back as YAML.
//
// # Reading
//
// [Load] reads a file, [Parse] takes its bytes. Both return either a complete,
// valid [Config] or [Faults]: one line for each fault, with file, line, full
// key path, what was expected and what was found:
//
//	sidecar.yaml:12: dependencies[0].breaker.failure_ratio: must be between 0 and 1, got 3
//
// Nothing is guessed. Unknown and duplicate keys, values of the wrong type, keys
// without a value, a second YAML document and an empty file are faults. Keys,
// names and header names keep their case and their dots. YAML anchors, aliases
// and merge keys (<<) work; a key written in a mapping beats a merged one.
//
// # Reading again
//
// A [Source] is a file that is read as it changes, together with the files that
// it names. [Source.Watch] looks at them whenever the system tells of something
// in one of their folders, and every 2 s besides, and compares their states
// (inode, size, times) with those of the last reading. States that have been the
// same for 250 ms are read, and the bytes compared: how a file was replaced, and
// which notices came, does not matter. A file that changes while it is read, or
// one of those read with it, has all of them read again.
//
// # Units
//
// A duration is a number with a unit: 250ms, 1.5s, 10m, 1h30m (units ns, us, ms,
// s, m, h). A size is a whole number with a unit, B, KiB, MiB, GiB (powers of
// 1024), KB, MB or GB (powers of 1000), or 0. A bare number is a fault, so that
// "timeout: 500" is never taken for 500 nanoseconds.
//
// # Precedence
//
// Each dependency starts from the built-in values ([DefaultDependency]), takes
// the keys of the file's "defaults" over them, then its own; each of its routes
// starts from the dependency's result. Nested mappings merge key by key. Lists
// and the headers of a static fallback are replaced as a whole, so an empty list
// takes an inherited one away. attempt_timeout follows the timeout of its own
// level until some level sets it.
//
// The scalars outside "dependencies" and "defaults" ([ProcessKeys]) can also come
// from a flag or an environment variable ([Process].Set), which beat the file and
// pass through the same checks.
//
// # For editors
//
// [Schema] is the JSON Schema of the file, made of the same descriptions: it
// accepts whatever the decoder does, and refuses what a schema can tell. A fault
// knows its line and column.
//
// # Using
//
// A Config is read-only once returned, and then safe for concurrent use:
// dependencies and routes share what they inherit. Empty lists and maps are
// nil, so two configurations that mean the same are reflect.DeepEqual;
// [Dependency.Equal] and [Config.Equal] say so for a reload, and go-cmp uses them.
package config
