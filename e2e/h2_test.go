package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// What happened: one typo switched reloading off until a restart, and readers
// raced the reload.
// Right: under load each bad file is refused with its reason in log, metrics
// and page, the next good one is applied, and of a hundred files in two seconds
// the last is in force; not one call fails.
func TestH2_BadReloadThenStuck(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, ok)
	const roomy = `
defaults: {bulkhead: {max_concurrent: 100, max_waiting: 2000, queue_timeout: 25s}, timeout: 25s}
dependencies:
  - {name: a, listen: $A, upstream: "http://$U"}
`
	s := start(t, roomy, u)
	s.expand(t, "$B") // an address has to be given before the calls
	calls := startLoad(200, time.Minute, func(int) result { return s.get("A", "/") })
	for i, bad := range []struct{ text, says string }{
		{roomy + "  - {name: b, listen: $B, upstream: [\n", "not valid YAML"},
		{strings.Replace(roomy, "}, timeout: 25s}", "}, timeout: [25s]}", 1), "defaults.timeout"},
		{roomy + "  - {name: a, listen: $B, upstream: \"http://$U\"}\n", "dependencies[1].name"},
	} {
		s.write(t, bad.text)
		s.awaitReloads(t, "failure", i+1)
		s.wantMetric(t, 0, "sidecar_config_last_reload_successful")
		lines := s.logs("level", "error", "msg", "configuration not reloaded")
		if len(lines) != i+1 || !strings.Contains(fmt.Sprint(lines[len(lines)-1]["error"]), bad.says) {
			t.Errorf("%s: the log says %v", bad.says, lines)
		}
		if page, err := s.ask(http.MethodGet, s.url("ADMIN")+"/", ""); err != nil || !strings.Contains(string(page), bad.says) {
			t.Errorf("the page does not show %q: %v", bad.says, err)
		}
	}
	room := func(n int) string {
		return strings.Replace(roomy, "max_waiting: 2000", fmt.Sprintf("max_waiting: %d", n), 1)
	}
	s.write(t, room(2500))
	s.awaitLive(t, "the good file", showsNumber(2500))
	s.wantMetric(t, 1, "sidecar_config_last_reload_successful")
	begin := time.Now()
	for i := range 100 {
		if i%2 == 0 {
			s.write(t, room(2501+i))
		} else {
			overwrite(t, s.path, s.expand(t, room(2501+i)))
		}
		time.Sleep(time.Until(begin.Add(time.Duration(i+1) * 20 * time.Millisecond)))
	}
	s.awaitLive(t, "the last of a hundred", showsNumber(2600))
	calls.stop()
	all := calls.wait()
	if bad := only(all, func(r result) bool { return r.err != nil || r.status != http.StatusOK }); len(bad) > 0 || len(all) < 400 {
		t.Errorf("%d of %d calls failed: %v", len(bad), len(all), bad)
	}
	s.wantMetric(t, 3, "sidecar_config_reloads_total", "result", "failure")
	s.wantMetric(t, 1, "sidecar_config_last_reload_successful")
}
