package deploy

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"
)

// monitoring is the folder of alerts and dashboard.
var monitoring = filepath.Join(kubernetes, "monitoring")

// alertRules returns the alerts, and writes them into a folder as promtool
// wants them: the spec of the PrometheusRule, beside the unit tests.
func alertRules(t *testing.T, dir string) []monitoringv1.Rule {
	t.Helper()
	spec := one[*monitoringv1.PrometheusRule](t, build(t, "monitoring")).Spec
	text, err := sigsyaml.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "alerts.rules.yaml", string(text))
	write(t, dir, "alerts_test.yaml", read(t, filepath.Join(monitoring, "alerts_test.yaml")))
	return spec.Groups[0].Rules
}

// TestAlerts: promtool accepts the rules and its unit tests pass.
func TestAlerts(t *testing.T) {
	t.Parallel()
	promtool := need(t, "promtool", "prometheus")
	dir := t.TempDir()
	alertRules(t, dir)
	mustCommand(t, dir, promtool, "check", "rules", "alerts.rules.yaml")
	mustCommand(t, dir, promtool, "test", "rules", "alerts_test.yaml")
}

// TestAlerts_EachIsTested: every alert has a case that fires and one that does
// not, a section in the README, and says what it is about.
func TestAlerts_EachIsTested(t *testing.T) {
	t.Parallel()
	var file struct {
		Tests []struct {
			Cases []struct {
				Alert  string           `yaml:"alertname"`
				Alerts []map[string]any `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, filepath.Join(monitoring, "alerts_test.yaml"))), &file); err != nil {
		t.Fatal(err)
	}
	fires, silent := map[string]int{}, map[string]int{}
	for _, test := range file.Tests {
		for _, c := range test.Cases {
			if len(c.Alerts) > 0 {
				fires[c.Alert]++
			} else {
				silent[c.Alert]++
			}
		}
	}
	readme := read(t, filepath.Join(kubernetes, "README.md"))
	rules := alertRules(t, t.TempDir())
	if len(rules) != len(fires) {
		t.Errorf("%d alerts, %d with tests", len(rules), len(fires))
	}
	for _, r := range rules {
		if fires[r.Alert] == 0 || silent[r.Alert] == 0 {
			t.Errorf("%s: %d cases fire, %d do not, want both", r.Alert, fires[r.Alert], silent[r.Alert])
		}
		if !strings.Contains(readme, "### "+r.Alert+"\n") {
			t.Errorf("%s has no section in README.md", r.Alert)
		}
		if r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s lacks severity, summary or description", r.Alert)
		}
	}
}

// TestAlerts_TestsSeeChanges: the unit tests hold every threshold: moved a
// little up or down, some test fails.
func TestAlerts_TestsSeeChanges(t *testing.T) {
	t.Parallel()
	promtool := need(t, "promtool", "prometheus")
	for alert, changes := range map[string][][2]string{
		"SidecarCircuitOpen":       {{"> 300", "> 400"}, {"> 300", "> 110"}},
		"SidecarFallbacks":         {{"> 0.05", "> 0.11"}, {"> 0.05", "> 0.03"}},
		"SidecarCircuitFlapping":   {{"> 3", "> 6"}, {"> 3", "> 2"}, {`to="closed"`, `to="open"`}},
		"SidecarBreakerBlind":      {{"> 0.5", "> 0.8"}, {"> 0.5", "> 0.3"}, {"> 20", "> 5"}, {"breaker_state[20m]", "breaker_state_[20m]"}},
		"SidecarBulkheadSaturated": {{"> 0.8", "> 0.95"}, {"> 0.8", "> 0.6"}},
		"SidecarBulkheadRefusing":  {{"> 0.01", "> 0.03"}, {"> 0.01", "> 0.004"}, {"queue_full|", "queue_full|open|"}},
		"SidecarReloadFailed":      {{"== 0", "== 1"}, {"> 0", "> 2"}},
	} {
		dir := t.TempDir()
		rules := alertRules(t, dir)
		rule := rules[slices.IndexFunc(rules, func(r monitoringv1.Rule) bool { return r.Alert == alert })]
		onlyTestsOf(t, alert, filepath.Join(dir, "alerts_test.yaml"))
		for _, change := range append(changes, [2]string{}) {
			changed := rule
			changed.Expr.StrVal = strings.Replace(rule.Expr.StrVal, change[0], change[1], 1)
			if (changed.Expr == rule.Expr) != (change == [2]string{}) {
				t.Fatalf("%s has no %q", alert, change[0])
			}
			text, err := sigsyaml.Marshal(monitoringv1.PrometheusRuleSpec{Groups: []monitoringv1.RuleGroup{{Name: "sidecar", Rules: []monitoringv1.Rule{changed}}}})
			if err != nil {
				t.Fatal(err)
			}
			write(t, dir, "alerts.rules.yaml", string(text))
			if out, err := command(dir, promtool, "test", "rules", "alerts_test.yaml"); (err == nil) != (changed.Expr == rule.Expr) {
				t.Errorf("%s with %q instead of %q: %v\n%s", alert, change[1], change[0], err, out)
			}
		}
	}
}

// onlyTestsOf leaves the unit tests of one alert in a file.
func onlyTestsOf(t *testing.T, alert, path string) {
	t.Helper()
	var file map[string]any
	if err := yaml.Unmarshal([]byte(read(t, path)), &file); err != nil {
		t.Fatal(err)
	}
	file["tests"] = slices.DeleteFunc(file["tests"].([]any), func(test any) bool {
		cases := test.(map[string]any)["alert_rule_test"].([]any)
		return cases[0].(map[string]any)["alertname"] != alert
	})
	text, err := yaml.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Dir(path), filepath.Base(path), string(text))
}

// selector finds the metrics in an expression, with their matchers.
var selector = regexp.MustCompile(`\b(sidecar|process|go)_[a-z_]+(\{[^}]*\})?`)

// metricName finds the metrics in prose.
var metricName = regexp.MustCompile("`(sidecar_[a-z_]+)`")
