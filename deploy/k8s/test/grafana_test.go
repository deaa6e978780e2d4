package deploy

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	grafana "github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/statetimeline"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// grafanaFaults decodes a dashboard strictly into Grafana's own schema: every
// panel's options, every query. It returns what the schema does not allow.
func grafanaFaults(text string) error {
	var d grafana.Dashboard //nolint:staticcheck // the classic model is what Grafana imports from a ConfigMap
	err := d.UnmarshalJSONStrict([]byte(text))
	// Without a fault there is an error all the same, of no faults.
	if faults := cog.BuildErrors(nil); errors.As(err, &faults) && len(faults) == 0 {
		err = nil
	}
	if err != nil {
		return err
	}
	return d.Validate()
}

// TestDashboard_Schema: Grafana knows every field.
func TestDashboard_Schema(t *testing.T) {
	t.Parallel()
	known := cog.NewRuntime()
	known.RegisterPanelcfgVariant(stat.VariantConfig())
	known.RegisterPanelcfgVariant(statetimeline.VariantConfig())
	known.RegisterPanelcfgVariant(timeseries.VariantConfig())
	known.RegisterDataqueryVariant(prometheus.VariantConfig())
	text := read(t, filepath.Join(monitoring, "dashboard.json"))
	if err := grafanaFaults(text); err != nil {
		t.Error(err)
	}
	for right, wrong := range map[string]string{
		`"gridPos"`:       `"gridpos"`,
		`"legendFormat"`:  `"legend"`,
		`"reduceOptions"`: `"reduce"`,
		`"showLegend"`:    `"legend"`,
		`"fillOpacity"`:   `"opacity"`,
		`"schemaVersion"`: `"version"`,
	} {
		slip := strings.Replace(text, right, wrong, 1)
		if slip == text {
			t.Fatalf("the dashboard has no %s", right)
		}
		if grafanaFaults(slip) == nil {
			t.Errorf("%s instead of %s passes", wrong, right)
		}
	}
}
