package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// sample is one value of a scrape. A histogram gives two: its name with _count
// and with _sum.
type sample struct {
	name   string
	labels map[string]string
	value  float64
}

// scrape is everything that one scrape of /metrics returned.
type scrape []sample

// metrics scrapes the sidecar.
func (s *sidecar) metrics(t *testing.T) scrape {
	t.Helper()
	all, err := s.tryMetrics()
	if err != nil {
		t.Fatalf("scraping: %v", err)
	}
	return all
}

func (s *sidecar) tryMetrics() (scrape, error) {
	text, err := s.ask(http.MethodGet, "http://"+s.addresses["METRICS"]+"/metrics", "")
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	var all scrape
	for name, f := range families {
		for _, m := range f.Metric {
			labels := map[string]string{}
			for _, l := range m.Label {
				labels[l.GetName()] = l.GetValue()
			}
			switch {
			case m.Counter != nil:
				all = append(all, sample{name, labels, m.Counter.GetValue()})
			case m.Gauge != nil:
				all = append(all, sample{name, labels, m.Gauge.GetValue()})
			case m.Histogram != nil:
				all = append(all, sample{name + "_count", labels, float64(m.Histogram.GetSampleCount())},
					sample{name + "_sum", labels, m.Histogram.GetSampleSum()})
			}
		}
	}
	return all, nil
}

// find returns the samples of a name whose labels include the given ones,
// written as name, value, name, value.
func (all scrape) find(name string, labels ...string) []sample {
	var found []sample
next:
	for _, s := range all {
		if s.name != name {
			continue
		}
		for i := 0; i+1 < len(labels); i += 2 {
			if s.labels[labels[i]] != labels[i+1] {
				continue next
			}
		}
		found = append(found, s)
	}
	return found
}

// sum adds the samples of a name whose labels include the given ones, and
// fails the test where there is none: a misspelt name must not read as 0.
func (all scrape) sum(t *testing.T, name string, labels ...string) float64 {
	t.Helper()
	found := all.find(name, labels...)
	if len(found) == 0 {
		t.Fatalf("no series %s with labels %q", name, labels)
	}
	total := 0.0
	for _, s := range found {
		total += s.value
	}
	return total
}

// wantMetric scrapes until a sum has the wanted value: the end of a call is
// told shortly after its last byte.
func (s *sidecar) wantMetric(t *testing.T, want float64, name string, labels ...string) {
	t.Helper()
	var got float64
	if !poll(2*time.Second, func() bool {
		got = s.metrics(t).sum(t, name, labels...)
		return got == want
	}) {
		t.Errorf("%s%q = %v, want %v", name, labels, got, want)
	}
}

// state is a dependency as the API shows it.
type state struct {
	Name, Listen, Upstream string
	Breaker                struct {
		State, Mode, Reason string
		Forced              bool
		Since               time.Time
		OpenUntil           *time.Time `json:"open_until"`
		Window              struct{ Calls, Failures, Slow int }
		OpenedTotal         int     `json:"opened_total"`
		OpenSecondsTotal    float64 `json:"open_seconds_total"`
	}
	Bulkhead struct {
		Limit         int
		MaxConcurrent int `json:"max_concurrent"`
		InUse         int `json:"in_use"`
		Waiting       int
		MaxWaiting    int     `json:"max_waiting"`
		OldestWait    float64 `json:"oldest_wait_seconds"`
	}
	Requests struct{ OK, Failed, Fallback, Rejected, Canceled int }
	Cache    struct {
		Entries int
		Bytes   int64
		Share   int64    `json:"share_bytes"`
		Oldest  *float64 `json:"oldest_seconds"`
	}
}

// api asks the admin API for one dependency.
func (s *sidecar) api(t *testing.T, name string) state {
	t.Helper()
	text, err := s.ask(http.MethodGet, "http://"+s.addresses["ADMIN"]+"/api/dependencies/"+name, "")
	if err != nil {
		t.Fatalf("asking for dependency %s: %v", name, err)
	}
	var d state
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatalf("dependency %s: %v in %s", name, err, text)
	}
	return d
}

// ask makes one request to the admin or the metrics listener and wants 200.
func (s *sidecar) ask(method, url, body string) ([]byte, error) {
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	res, err := s.scraper.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", res.Status, text)
	}
	return text, err
}

// awaitState polls until a dependency's circuit is in a state, for at most a
// time, and returns when it was seen so.
func (s *sidecar) awaitState(t *testing.T, name, want string, within time.Duration) time.Time {
	t.Helper()
	var got string
	if !poll(within, func() bool {
		got = s.api(t, name).Breaker.State
		return got == want
	}) {
		t.Fatalf("dependency %s is %s after %s, want %s", name, got, within, want)
	}
	return time.Now()
}

// usage is what the process holds.
type usage struct{ goroutines, files, inUse, waiting float64 }

func (s *sidecar) usage() (usage, error) {
	all, err := s.tryMetrics()
	if err != nil {
		return usage{}, err
	}
	total := func(name string) float64 {
		n := 0.0
		for _, m := range all.find(name) {
			n += m.value
		}
		return n
	}
	return usage{
		goroutines: total("go_goroutines"), files: total("process_open_fds"), // 0 where the system does not tell
		inUse: total("sidecar_bulkhead_in_use"), waiting: total("sidecar_bulkhead_waiting"),
	}, nil
}

// settled returns the usage once it has stopped changing. A scrape counts its
// own goroutines, on a busy machine a few more or less each time: the most that
// is seen counts.
func (s *sidecar) settled(t *testing.T) usage {
	t.Helper()
	const few = 3
	var most usage
	same := 0
	if !poll(patience, func() bool {
		now, err := s.usage()
		if err != nil || now.goroutines > most.goroutines || now.goroutines < most.goroutines-few || now.files != most.files {
			same, most = 0, now
		}
		same++
		return same == 4
	}) {
		t.Fatalf("the sidecar does not settle: %+v", most)
	}
	return most
}

// checkLeaks waits until the process holds no more than at its start.
func (s *sidecar) checkLeaks(t *testing.T) {
	t.Helper()
	var now usage
	var err error
	if !poll(3*time.Second, func() bool {
		now, err = s.usage()
		return err == nil && now.goroutines <= s.before.goroutines && now.files <= s.before.files && now.inUse == 0 && now.waiting == 0
	}) {
		t.Errorf("the sidecar holds %+v at the end (%v), want no more than %+v", now, err, s.before)
	}
}
