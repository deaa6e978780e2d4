package admin

import (
	"encoding/json"
	"net/http"
	"testing"

	"sidecar/advice"
	"sidecar/history"
)

// seer is an Insight into one dependency.
type seer struct{}

func (seer) History(name string) (history.Report, bool) {
	return history.Report{StepSeconds: 5, Dependencies: []history.Dependency{{Name: "of " + name, State: "c"}}}, name == "" || name == "pay ments"
}

func (seer) Advice(name string) (advice.Advice, bool) {
	return advice.Advice{Name: name, Findings: []advice.Finding{{Kind: "flapping"}}}, name == "pay ments"
}

func TestInsight(t *testing.T) {
	o := options(newFake())
	o.Insight = seer{}
	h := New(o)
	for target, want := range map[string]string{
		"/api/history":                         "of ",
		"/api/history?name=pay%20ments":        "of pay ments",
		"/api/dependencies/pay%20ments/advice": "pay ments",
	} {
		w := ask(h, request(http.MethodGet, target, ""))
		var got struct {
			Name         string
			Dependencies []struct{ Name string }
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%s: %d %s", target, w.Code, w.Body)
		}
		if len(got.Dependencies) > 0 {
			got.Name = got.Dependencies[0].Name
		}
		if got.Name != want {
			t.Errorf("%s answers of %q, want %q", target, got.Name, want)
		}
	}
	for _, target := range []string{"/api/history?name=x", "/api/dependencies/x/advice"} {
		expectProblem(t, ask(h, request(http.MethodGet, target, "")), http.StatusNotFound)
		expectProblem(t, ask(h, request(http.MethodPost, target, "")), http.StatusMethodNotAllowed)
	}
}
