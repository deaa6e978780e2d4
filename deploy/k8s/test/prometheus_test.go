package deploy

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"syscall"
	"testing"
)

// server is a running Prometheus.
type server struct{ url string }

// startPrometheus runs a Prometheus that scrapes an address every second, with
// the labels that the PodMonitor gives a pod.
func startPrometheus(t *testing.T, target string) *server {
	t.Helper()
	program := need(t, "prometheus", "prometheus")
	dir := t.TempDir()
	config := write(t, dir, "prometheus.yml", fmt.Sprintf(`
global: {scrape_interval: 1s}
scrape_configs:
  - job_name: monitoring/sidecar
    static_configs:
      - targets: [%q]
        labels: {namespace: shop, app: shop, pod: shop-1, container: sidecar}
`, target))
	s := &server{}
	for s.url == "" {
		address := freeAddress(t)
		p := run(t, os.Interrupt, program, "--config.file="+config, "--storage.tsdb.path="+dir+"/data", "--web.listen-address="+address)
		eventually(t, "Prometheus", func() bool {
			select {
			case <-p.ended:
				t.Fatalf("Prometheus did not start:\n%s", p.out.String())
			default:
			}
			res, err := http.Get("http://" + address + "/-/ready")
			if err != nil {
				return false
			}
			_ = res.Body.Close()
			return res.StatusCode == http.StatusOK
		})
		s.url = "http://" + address
	}
	return s
}

// stopSignal ends the sidecar.
const stopSignal = syscall.SIGTERM

// freeAddress returns a loopback address that nobody listens on at present.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// ask makes one request to the API and decodes what it returns.
func (s *server) ask(path string, parameters url.Values, data any) error {
	res, err := http.Get(s.url + path + "?" + parameters.Encode())
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.Unmarshal(text, &answer); err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s", answer.Error)
	}
	return nil
}

// query evaluates an expression now and returns the values of its series that
// are numbers.
func (s *server) query(expr string) ([]float64, error) {
	var vector struct {
		Result []struct{ Value [2]any }
	}
	if err := s.ask("/api/v1/query", url.Values{"query": {expr}}, &vector); err != nil {
		return nil, err
	}
	var values []float64
	for _, r := range vector.Result {
		v, err := strconv.ParseFloat(fmt.Sprint(r.Value[1]), 64)
		if err != nil {
			return nil, err
		}
		if !math.IsNaN(v) {
			values = append(values, v)
		}
	}
	return values, nil
}

// labelValues returns what a dashboard's variable offers.
func (s *server) labelValues(match, label string) ([]string, error) {
	var values []string
	err := s.ask("/api/v1/label/"+url.PathEscape(label)+"/values", url.Values{"match[]": {match}}, &values)
	return values, err
}
