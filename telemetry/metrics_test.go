package telemetry

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"sidecar/proxy"
	"sidecar/resilience/breaker"
	"sidecar/resilience/bulkhead"
	"sidecar/stale"
)

// documented is the table of metrics that dashboards rely on.
const documented = `
counter    sidecar_requests_total                                  dependency outcome
histogram  sidecar_request_duration_seconds                        dependency
counter    sidecar_attempts_total                                  dependency result
histogram  sidecar_attempt_duration_seconds                        dependency
counter    sidecar_rejections_total                                dependency reason
counter    sidecar_fallbacks_total                                 dependency source reason
counter    sidecar_retries_total                                   dependency
counter    sidecar_retries_denied_total                            dependency reason
gauge      sidecar_breaker_state                                   dependency
counter    sidecar_breaker_transitions_total                       dependency to
counter    sidecar_breaker_open_seconds_total                      dependency
counter    sidecar_breaker_would_reject_total                      dependency
gauge      sidecar_bulkhead_in_use                                 dependency
gauge      sidecar_bulkhead_limit                                  dependency
gauge      sidecar_bulkhead_waiting                                dependency
gauge      sidecar_bulkhead_oldest_wait_seconds                    dependency
histogram  sidecar_bulkhead_wait_seconds                           dependency
histogram  sidecar_stale_age_seconds                               dependency
gauge      sidecar_shadow_breaker_state                            dependency
counter    sidecar_shadow_breaker_transitions_total                dependency to
counter    sidecar_shadow_would_reject_total                       dependency reason
counter    sidecar_shadow_would_admit_total                        dependency reason
counter    sidecar_shadow_agreed_total                             dependency decision
gauge      sidecar_drill_active                                    dependency
counter    sidecar_drill_injected_total                            dependency fault
counter    sidecar_drill_withheld_total                            dependency
gauge      sidecar_cache_bytes
gauge      sidecar_cache_entries
counter    sidecar_cache_evictions_total
counter    sidecar_cache_stores_total
counter    sidecar_cache_skips_total                               reason
gauge      sidecar_config_last_reload_successful
gauge      sidecar_config_last_reload_success_timestamp_seconds
counter    sidecar_config_reloads_total                            result
gauge      sidecar_build_info                                      version revision goversion
`

func documentedLines() []string {
	var lines []string
	for line := range strings.Lines(strings.TrimSpace(documented)) {
		fields := strings.Fields(line)
		slices.Sort(fields[2:])
		lines = append(lines, strings.Join(fields, " "))
	}
	slices.Sort(lines)
	return lines
}

// TestMetricsAreTheDocumentedOnes compares the documented table with what the
// code describes and with what a scrape shows before the first event.
func TestMetricsAreTheDocumentedOnes(t *testing.T) {
	tele := New(Options{})
	tele.Add("a")
	tele.SetSource(&fakeSource{snapshots: []proxy.Snapshot{{Name: "a", Shadow: &proxy.ShadowSnapshot{}}}})

	var described []string
	for _, m := range Describe() {
		labels := slices.Sorted(slices.Values(m.Labels))
		described = append(described, strings.Join(append([]string{m.Type, m.Name}, labels...), " "))
		if m.Help == "" {
			t.Errorf("%s has no help", m.Name)
		}
	}
	slices.Sort(described)
	if d := cmp.Diff(documentedLines(), described); d != "" {
		t.Errorf("described (-documented +code):\n%s", d)
	}

	families, err := tele.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	var gathered []string
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "sidecar_") {
			continue
		}
		fields := []string{strings.ToLower(f.GetType().String()), f.GetName()}
		for _, l := range f.GetMetric()[0].GetLabel() {
			fields = append(fields, l.GetName())
		}
		gathered = append(gathered, strings.Join(fields, " "))
	}
	slices.Sort(gathered)
	if d := cmp.Diff(documentedLines(), gathered); d != "" {
		t.Errorf("gathered (-documented +scrape):\n%s", d)
	}
}

func TestDescribeGivesCopies(t *testing.T) {
	Describe()[0].Labels[0] = "spoilt"
	if got := Describe()[0].Labels[0]; got != "dependency" {
		t.Errorf("label is %q after a caller changed its copy", got)
	}
}

func TestMetricsAreClean(t *testing.T) {
	tele := New(Options{Version: "1.2.3"})
	tele.Add("a")
	tele.SetSource(&fakeSource{snapshots: []proxy.Snapshot{{Name: "a", Shadow: &proxy.ShadowSnapshot{}}}})
	var names []string
	for _, m := range Describe() {
		names = append(names, m.Name)
	}
	problems, err := testutil.GatherAndLint(tele.Registry(), names...)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestRuntimeMetricsAreThere(t *testing.T) {
	tele := New(Options{})
	w := httptest.NewRecorder()
	tele.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, name := range []string{"go_goroutines", "process_cpu_seconds_total"} {
		if !strings.Contains(w.Body.String(), "\n"+name+" ") {
			t.Errorf("%s is missing", name)
		}
	}
}

// TestSeriesExistBeforeTheFirstEvent counts all words of all sets.
func TestSeriesExistBeforeTheFirstEvent(t *testing.T) {
	tele := New(Options{Version: "v", Revision: "r"})
	before := len(scrape(t, tele))
	tele.Add("a")
	got := scrape(t, tele)

	var words []string
	for _, o := range proxy.Outcomes {
		words = append(words, fmt.Sprintf(`sidecar_requests_total{dependency="a",outcome="%s"}`, o))
	}
	for _, r := range proxy.Results {
		words = append(words, fmt.Sprintf(`sidecar_attempts_total{dependency="a",result="%s"}`, r))
	}
	for _, r := range proxy.Refusals {
		words = append(words, fmt.Sprintf(`sidecar_rejections_total{dependency="a",reason="%s"}`, r))
	}
	for _, s := range proxy.Sources {
		for _, r := range proxy.Degraders {
			words = append(words, fmt.Sprintf(`sidecar_fallbacks_total{dependency="a",reason="%s",source="%s"}`, r, s))
		}
	}
	for _, d := range proxy.Denials {
		words = append(words, fmt.Sprintf(`sidecar_retries_denied_total{dependency="a",reason="%s"}`, d))
	}
	for _, s := range []string{"closed", "half_open", "open"} {
		words = append(words, fmt.Sprintf(`sidecar_breaker_transitions_total{dependency="a",to="%s"}`, s))
	}
	words = append(
		words, `sidecar_retries_total{dependency="a"}`, `sidecar_drill_withheld_total{dependency="a"}`,
		`sidecar_drill_injected_total{dependency="a",fault="latency"}`, `sidecar_drill_injected_total{dependency="a",fault="error"}`,
		`sidecar_drill_injected_total{dependency="a",fault="refuse"}`,
		`sidecar_breaker_open_seconds_total{dependency="a"}`, `sidecar_breaker_would_reject_total{dependency="a"}`,
	)
	for h, buckets := range map[string][]float64{
		"request_duration": Buckets, "attempt_duration": Buckets, "bulkhead_wait": Buckets, "stale_age": AgeBuckets,
	} {
		words = append(
			words, fmt.Sprintf(`sidecar_%s_seconds_count{dependency="a"}`, h),
			fmt.Sprintf(`sidecar_%s_seconds_sum{dependency="a"}`, h),
			fmt.Sprintf(`sidecar_%s_seconds_bucket{dependency="a",le="+Inf"}`, h),
		)
		for _, le := range buckets {
			words = append(words, fmt.Sprintf(`sidecar_%s_seconds_bucket{dependency="a",le="%v"}`, h, le))
		}
	}
	for _, w := range words {
		if v, ok := got[w]; !ok || v != 0 {
			t.Errorf("%s = %v (present: %v), want 0", w, v, ok)
		}
	}
	if added := len(got) - before; added != len(words) {
		t.Errorf("a dependency added %d series, want %d", added, len(words))
	}
}

func TestGaugesComeFromSnapshots(t *testing.T) {
	tele := New(Options{})
	tele.Add("a")
	source := &fakeSource{}
	tele.SetSource(source)
	source.set(
		stale.Snapshot{Bytes: 4096, Entries: 3, Stores: 5, Evictions: 2, Skips: map[string]uint64{stale.SkipNames[0]: 7}},
		proxy.Snapshot{
			Name:     "a",
			Breaker:  breaker.Snapshot{State: breaker.Open, OpenTime: 1500 * time.Millisecond, WouldReject: 4},
			Bulkhead: bulkhead.Snapshot{Limit: 7, MaxConcurrent: 20, InUse: 3, Waiting: 2, OldestWait: 250 * time.Millisecond},
		},
		proxy.Snapshot{Name: "never added"},
	)
	got := scrape(t, tele)
	expect(t, got, map[string]float64{
		`sidecar_breaker_state{dependency="a"}`:                                        2,
		`sidecar_breaker_open_seconds_total{dependency="a"}`:                           1.5,
		`sidecar_breaker_would_reject_total{dependency="a"}`:                           4,
		`sidecar_bulkhead_in_use{dependency="a"}`:                                      3,
		`sidecar_bulkhead_limit{dependency="a"}`:                                       7,
		`sidecar_bulkhead_waiting{dependency="a"}`:                                     2,
		`sidecar_bulkhead_oldest_wait_seconds{dependency="a"}`:                         0.25,
		`sidecar_cache_bytes`:                                                          4096,
		`sidecar_cache_entries`:                                                        3,
		`sidecar_cache_stores_total`:                                                   5,
		`sidecar_cache_evictions_total`:                                                2,
		`sidecar_cache_skips_total{reason="` + stale.SkipNames[0] + `"}`:               7,
		`sidecar_cache_skips_total{reason="` + stale.SkipNames[1] + `"}`:               0,
		`sidecar_config_last_reload_successful`:                                        1,
		`sidecar_build_info{goversion="` + tele.build[2] + `",revision="",version=""}`: 1,
	})
	for name := range got {
		if strings.Contains(name, "never added") {
			t.Errorf("%s is there, though its dependency was not added", name)
		}
	}
}

// TestCountersOfSnapshotsNeverFall replaces the dependency and the store behind
// a name that stays: their numbers begin again, the counters must not.
func TestCountersOfSnapshotsNeverFall(t *testing.T) {
	tele := New(Options{})
	tele.Add("a")
	source := &fakeSource{}
	tele.SetSource(source)
	snapshot := func(open time.Duration, would uint64) proxy.Snapshot {
		return proxy.Snapshot{Name: "a", Breaker: breaker.Snapshot{OpenTime: open, WouldReject: would}}
	}
	steps := []struct {
		store             stale.Snapshot
		snapshots         []proxy.Snapshot
		open, would, kept float64
	}{
		{stale.Snapshot{Stores: 10}, []proxy.Snapshot{snapshot(8*time.Second, 6)}, 8, 6, 10},
		{stale.Snapshot{}, nil, 8, 6, 10}, // between the old and the new one
		{stale.Snapshot{Stores: 1}, []proxy.Snapshot{snapshot(2*time.Second, 0)}, 10, 6, 11},
		{stale.Snapshot{Stores: 4}, []proxy.Snapshot{snapshot(9*time.Second, 5)}, 17, 11, 14},
	}
	for _, s := range steps {
		source.set(s.store, s.snapshots...)
		expect(t, scrape(t, tele), map[string]float64{
			`sidecar_breaker_open_seconds_total{dependency="a"}`: s.open,
			`sidecar_breaker_would_reject_total{dependency="a"}`: s.would,
			`sidecar_cache_stores_total`:                         s.kept,
		})
	}
}

// TestTwoSnapshotsOfOneName must not spoil the whole scrape.
func TestTwoSnapshotsOfOneName(t *testing.T) {
	tele := New(Options{})
	tele.Add("a")
	tele.SetSource(&fakeSource{snapshots: []proxy.Snapshot{
		{Name: "a"}, {Name: "a", Bulkhead: bulkhead.Snapshot{InUse: 1}},
	}})
	expect(t, scrape(t, tele), map[string]float64{`sidecar_bulkhead_in_use{dependency="a"}`: 1})
}

func TestReloadMetrics(t *testing.T) {
	started := time.Unix(1000, 0)
	tele := New(Options{LoadedAt: started})
	step := func(successful, timestamp, successes, failures float64) {
		t.Helper()
		expect(t, scrape(t, tele), map[string]float64{
			`sidecar_config_last_reload_successful`:                successful,
			`sidecar_config_last_reload_success_timestamp_seconds`: timestamp,
			`sidecar_config_reloads_total{result="success"}`:       successes,
			`sidecar_config_reloads_total{result="failure"}`:       failures,
		})
	}
	step(1, 1000, 0, 0)
	tele.ReloadSucceeded(time.Unix(2000, 5e8), Changes{})
	step(1, 2000.5, 1, 0)
	tele.ReloadFailed(time.Unix(3000, 0), errors.New("bad"))
	step(0, 2000.5, 1, 1)
	if at, err := tele.LastReload(); !at.Equal(time.Unix(3000, 0)) || err == nil || err.Error() != "bad" {
		t.Errorf("last reload is %v, %v", at, err)
	}
	tele.ReloadSucceeded(time.Unix(4000, 0), Changes{})
	step(1, 4000, 2, 1)
}
