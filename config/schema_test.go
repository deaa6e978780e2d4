package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"
)

const schemaFile = "../sidecar.schema.json"

// The schema at the root of the project is what the code says. After a change:
// go test ./config -run Schema -update.
func TestSchemaFile(t *testing.T) {
	if *update {
		if err := os.WriteFile(schemaFile, Schema(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(data, Schema()) {
		t.Error("sidecar.schema.json is not what the code says; run: go test ./config -run Schema -update")
	}
}

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertVocabs()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// asEditor reads YAML as an editor does before it asks the schema.
func asEditor(t *testing.T, text []byte) (value any, err error) {
	t.Helper()
	err = yaml.Unmarshal(text, &value)
	return asText(value), err
}

// asText makes texts of dates, which JSON does not have, and drops what only
// YAML can be a key of.
func asText(v any) any {
	switch x := v.(type) {
	case time.Time:
		return x.Format(time.DateOnly)
	case []any:
		for i := range x {
			x[i] = asText(x[i])
		}
	case map[string]any:
		for k := range x {
			x[k] = asText(x[k])
		}
	case map[any]any:
		return []any{"keys that are no texts"}
	}
	return v
}

// Whatever the decoder accepts, the schema does too.
func TestSchemaAcceptsGoodFiles(t *testing.T) {
	s := compiled(t)
	good := files(t, "good")
	for _, pattern := range []string{"../*.yaml", "../cmd/sidecar/*.yaml", "../deploy/k8s/example/sidecar.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("no files %s: %v", pattern, err)
		}
		good = append(good, found...)
	}
	for _, file := range good {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, schema, named := strings.Cut(string(text), "yaml-language-server: $schema=")
		schema, _, _ = strings.Cut(schema, "\n")
		if !strings.Contains(file, "testdata") && (!named || filepath.Join(filepath.Dir(file), schema) != schemaFile) {
			t.Errorf("%s does not lead an editor to the schema", file)
		}
		value, err := asEditor(t, text)
		if err == nil {
			err = s.Validate(value)
		}
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
		c, err := Load(file, Process{})
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if value, err = asEditor(t, []byte(effective(t, c))); err == nil {
			err = s.Validate(value)
		}
		if err != nil {
			t.Errorf("the effective configuration of %s: %v", file, err)
		}
	}
}

// beyondSchema are the bad files that the schema takes for good, by why no
// schema can tell.
var beyondSchema = map[string][]string{
	"it compares two values": {
		"backoff-below-cooldown", "clash", "clash-admin", "limits-sum", "retry-backoff", "shadow-backoff", "status-reversed",
	},
	"header names that differ in case are different keys":               {"static-header-twice"},
	"what is wrong comes from the defaults and the dependency together": {"defaults-inherited", "tls-cert-without-key"},
	"it is about files":                                       {"static-body-file", "static-body-folder", "tls-missing-file"},
	"numbers have lost their spelling":                        {"octal"},
	"a pattern does not compute":                              {"size-huge"},
	"it sees one document, others are for the editor to mark": {"second-document", "syntax-second-document"},
}

// Whatever a schema can tell of a bad file, this one tells.
func TestSchemaRefusesBadFiles(t *testing.T) {
	s := compiled(t)
	beyond := make(map[string]string)
	for why, names := range beyondSchema {
		for _, name := range names {
			beyond[name] = why
		}
	}
	for _, file := range files(t, "bad") {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		value, err := asEditor(t, text)
		if err == nil {
			err = s.Validate(value)
		}
		switch why, listed := beyond[name]; {
		case err == nil && !listed:
			t.Errorf("the schema takes %s for good", name)
		case err != nil && listed:
			t.Errorf("the schema can tell what is wrong with %s after all (%s): %v", name, why, err)
		}
		delete(beyond, name)
	}
	for name := range beyond {
		t.Errorf("there is no bad file %s", name)
	}
}

// A text that the decoder takes, the schema takes: it must never mark as wrong
// what the sidecar runs with. The other way round it may be lenient.
func TestSchemaIsNeverStricter(t *testing.T) {
	s := compiled(t)
	for name, c := range map[string]struct{ file, letters string }{
		"duration":  {"timeout: $", "0123456789..+-nsumµμh"},
		"positive":  {"breaker: {cooldown: $}", "01.+-nsmh"},
		"window":    {"breaker: {window: $}", "019.-+msh"},
		"size":      {"max_request_bytes: $", "0123-KMGiB "},
		"status":    {"failure: {statuses: [$]}", "!01459-"},
		"condition": {"retry: {\"on\": [$]}", "!01459-conetrsimu"},
		"address":   {"allow_remote: true\n    listen: $", "0123456789:::.[]abcf%-_"},
		"local":     {"listen: $", "1270:::.[]af%localhostLH"},
		"name":      {"name: $", "aZ0. /?#é日-\u00a0\u0300"},
		"upstream":  {"upstream: $", "htps:/HTPS::///a@b[]:0169?#%.é \u007f"},
		"path":      {"routes: [{match: {path: $}}]", "/a?#% é"},
		"method":    {"routes: [{match: {methods: [$]}}]", "GETa-*! é"},
		"header":    {"fallback: [stale: {vary_by: [$]}]", "aA*-: _é"},
		"names":     {"fallback: [static: {headers: {$: x}}]", "teTE*-: _é"},
		"values":    {"fallback: [static: {headers: {X-A: $}}]", "a \t\u007f\u00a0\u0085é\u200b\n"},
	} {
		t.Run(name, func(t *testing.T) {
			text := rapid.StringOf(rapid.SampledFrom([]rune(c.letters)))
			texts := rapid.OneOf(text,
				rapid.Map(text, func(s string) string { return "1s" + s }), rapid.Map(text, func(s string) string { return "/" + s }),
				rapid.Map(text, func(s string) string { return "http://" + s }), rapid.Map(text, func(s string) string { return "127.0.0.1:" + s }),
				rapid.Map(text, func(s string) string { return "[" + s + "]:7001" }), rapid.Map(text, func(s string) string { return "50" + s }))
			rapid.Check(t, func(t *rapid.T) {
				word, err := yaml.Marshal(&yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle, Value: texts.Draw(t, "text")})
				if err != nil {
					t.Skip()
				}
				file := "dependencies:\n  - " + strings.Replace(c.file, "$", strings.TrimSpace(string(word)), 1) + "\n"
				for key, line := range map[string]string{"name": "name: a", "listen": "listen: 127.0.0.1:7001", "upstream": "upstream: http://a.test"} {
					if !strings.Contains(c.file, key+": $") {
						file += "    " + line + "\n"
					}
				}
				if _, err := Parse("sidecar.yaml", []byte(file), Process{}); err != nil {
					return
				}
				var value any
				if err := yaml.Unmarshal([]byte(file), &value); err != nil {
					t.Fatal(err)
				}
				if err := s.Validate(asText(value)); err != nil {
					t.Fatalf("the decoder takes\n%sand the schema does not: %v", file, err)
				}
			})
		})
	}
}

// Every key of the README's tables is in the schema, with its meaning and its
// default.
func TestSchemaHasEveryKey(t *testing.T) {
	var root map[string]any
	if err := json.Unmarshal(Schema(), &root); err != nil {
		t.Fatal(err)
	}
	for _, k := range Reference() {
		at := root
		for part := range strings.SplitSeq(k.Name, ".") {
			key, list := strings.CutSuffix(part, "[]")
			at, _ = at["properties"].(map[string]any)
			at, _ = at[key].(map[string]any)
			if list {
				at, _ = at["items"].(map[string]any)
			}
		}
		if usage, _ := at["description"].(string); !strings.HasPrefix(usage, k.Usage) || k.Usage == "" {
			t.Errorf("%s is described as %q, want %q", k.Name, usage, k.Usage)
		}
		value, ok := at["default"]
		inList := strings.Contains(k.Name, "fallback[]") || strings.Contains(k.Name, "routes[]")
		if shown := strings.ReplaceAll(fmt.Sprint(value), " ", ", "); ok && shown != k.Default || !ok && !inList && k.Default != "" {
			t.Errorf("the default of %s is %q, want %q", k.Name, shown, k.Default)
		}
	}
}
