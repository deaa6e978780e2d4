package deploy

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// dashboard is what the tests look at of Grafana's model.
type dashboard struct {
	Annotations struct{ List []struct{ Expr string } }
	Templating  struct {
		List []struct {
			Name, Type, Definition, AllValue string
			IncludeAll                       bool
		}
	}
	Panels []panel
}

type panel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ H, W, X, Y int }
	FieldConfig              struct{ Defaults struct{ Unit string } }
	Targets                  []struct {
		Expr, LegendFormat string
		Datasource         struct{ UID string }
	}
}

func readDashboard(t *testing.T) *dashboard {
	t.Helper()
	config := one[*corev1.ConfigMap](t, build(t, "monitoring"))
	if config.Labels["grafana_dashboard"] != "1" || config.Name != "sidecar-dashboard" {
		t.Errorf("Grafana does not find the ConfigMap %s with labels %v", config.Name, config.Labels)
	}
	d := &dashboard{}
	if err := json.Unmarshal([]byte(config.Data["dashboard.json"]), d); err != nil {
		t.Fatal(err)
	}
	return d
}

// expressions returns every expression of panels and annotations, by where it
// stands.
func (d *dashboard) expressions() map[string]string {
	all := map[string]string{}
	for _, p := range d.Panels {
		for i, target := range p.Targets {
			all[fmt.Sprintf("%s/%d", p.Title, i)] = target.Expr
		}
	}
	for i, a := range d.Annotations.List {
		all[fmt.Sprintf("annotation/%d", i)] = a.Expr
	}
	return all
}

// variables is what Grafana puts in for variables when all is chosen.
var variables = strings.NewReplacer("$__rate_interval", "1m", "$namespace", ".*", "$app", ".*", "$dependency", ".*")

// TestDashboard: every expression gives at least one series in a real
// Prometheus that has scraped a real sidecar, and every variable has a choice.
// The same holds for what alerts and README name.
func TestDashboard(t *testing.T) {
	t.Parallel()
	w := startWatched(t)
	prometheus := startPrometheus(t, w.metrics)
	reaches := func(expr string, want float64) {
		t.Helper()
		eventually(t, fmt.Sprintf("%s to reach %v", expr, want), func() bool {
			values, err := prometheus.query(expr)
			return err == nil && len(values) == 1 && values[0] >= want
		})
	}
	reaches("min(count_over_time(sidecar_build_info[5m]))", 2)
	w.traffic(t)
	reaches("sum(sidecar_requests_total)", float64(w.calls))
	d := readDashboard(t)
	series := func(expr string) int {
		t.Helper()
		values, err := prometheus.query(variables.Replace(expr))
		if err != nil {
			t.Errorf("%s: %v", expr, err)
		}
		return len(values)
	}
	for where, expr := range d.expressions() {
		if series(expr) == 0 {
			t.Errorf("%s is empty: %s", where, expr)
		}
		for _, s := range selector.FindAllString(expr, -1) {
			name, _, _ := strings.Cut(s, "{")
			if misspelt := strings.ReplaceAll(expr, name, name+"x"); series(misspelt) != 0 {
				t.Errorf("%s has series for %s: a slip in it would not be seen", where, misspelt)
			}
		}
	}
	checkCoverage(t, prometheus, d)
	for _, v := range d.Templating.List {
		if v.Type == "query" {
			checkVariable(t, prometheus, v.Name, v.Definition)
		}
	}
	for _, r := range alertRules(t, t.TempDir()) {
		for _, s := range selector.FindAllString(r.Expr.String(), -1) {
			if series(s) == 0 {
				t.Errorf("%s looks at %s, and there is none", r.Alert, s)
			}
		}
	}
	for _, name := range metricName.FindAllStringSubmatch(read(t, filepath.Join(kubernetes, "README.md")), -1) {
		if series(name[1]) == 0 {
			t.Errorf("README.md names %s, and there is none", name[1])
		}
	}
	t.Run("promtool", func(t *testing.T) { checkMetrics(t, w) })
}

// checkCoverage wants every metric of the sidecar's own on some panel.
func checkCoverage(t *testing.T, prometheus *server, d *dashboard) {
	t.Helper()
	names, err := prometheus.labelValues(`{__name__=~"sidecar_.*"}`, "__name__")
	if err != nil || len(names) < 30 {
		t.Errorf("Prometheus knows the metrics %v, error: %v", names, err)
	}
	all := fmt.Sprint(d.expressions())
	for _, name := range names {
		for _, part := range []string{"_bucket", "_sum", "_count"} {
			name = strings.TrimSuffix(name, part)
		}
		if !strings.Contains(all, name) {
			t.Errorf("no panel shows %s", name)
		}
	}
}

// checkVariable wants a choice in a variable's query, which is
// label_values(selector, label).
func checkVariable(t *testing.T, prometheus *server, name, definition string) {
	t.Helper()
	parts := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`).FindStringSubmatch(definition)
	if parts == nil {
		t.Errorf("the variable %s asks %q", name, definition)
		return
	}
	values, err := prometheus.labelValues(variables.Replace(parts[1]), parts[2])
	if err != nil || len(values) == 0 || parts[2] != name {
		t.Errorf("the variable %s offers %v, error: %v", name, values, err)
	}
}

// checkMetrics has promtool look at what the sidecar exposes.
func checkMetrics(t *testing.T, w *watched) {
	promtool := need(t, "promtool", "prometheus")
	res, err := http.Get("http://" + w.metrics + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	check := exec.Command(promtool, "check", "metrics")
	check.Stdin = strings.NewReader(string(text))
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}

// TestDashboard_Layout: rows of panels side by side, none over another, each
// with title, description, unit and the chosen data source.
func TestDashboard_Layout(t *testing.T) {
	t.Parallel()
	d := readDashboard(t)
	taken, ids := map[[2]int]string{}, map[int]bool{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.Title == "" {
			t.Errorf("panel %d %q: no title, or an id that another has", p.ID, p.Title)
		}
		ids[p.ID] = true
		g := p.GridPos
		if g.W < 1 || g.H < 1 || g.X < 0 || g.X+g.W > 24 {
			t.Errorf("%s lies at %+v", p.Title, g)
		}
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" {
					t.Errorf("%s lies over %s", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Description == "" || len(p.Targets) == 0 || (p.FieldConfig.Defaults.Unit == "" && p.Type != "state-timeline") {
			t.Errorf("%s has no description, query or unit", p.Title)
		}
		for _, target := range p.Targets {
			if target.Datasource.UID != "${datasource}" || (p.Type != "stat" && target.LegendFormat == "") {
				t.Errorf("%s: data source %q, legend %q", p.Title, target.Datasource.UID, target.LegendFormat)
			}
		}
	}
	height := 0
	for place := range taken {
		height = max(height, place[1]+1)
	}
	if len(taken) != 24*height {
		t.Errorf("%d of %d places hold a panel: there are gaps", len(taken), 24*height)
	}
	for _, v := range d.Templating.List {
		if v.Type == "query" && (!v.IncludeAll || v.AllValue != ".*") {
			t.Errorf("the variable %s cannot be all", v.Name)
		}
	}
	if names := slices.Collect(func(yield func(string) bool) {
		for _, v := range d.Templating.List {
			if !yield(v.Name) {
				return
			}
		}
	}); !slices.Equal(names, []string{"datasource", "namespace", "app", "dependency"}) {
		t.Errorf("the variables are %v", names)
	}
}
