package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"sidecar/proxy"
)

// longestDrill bounds a drill and the latency that it adds: 1h, as the errors
// say.
const longestDrill = time.Hour

// drillForm shows what the body of an order is like.
const drillForm = `the body must be such as {"latency":"8s","share":"50%","for":"30s"}, with "error":503 or "refuse":true in place of latency`

// drillStatus is what is shown of a drill that runs.
type drillStatus struct {
	Fault    string    `json:"fault"`
	Share    float64   `json:"share"`
	Until    timestamp `json:"until"`
	Injected uint64    `json:"injected"`
}

func newDrillStatus(d *proxy.DrillSnapshot) *drillStatus {
	if d == nil {
		return nil
	}
	return &drillStatus{Fault: d.String(), Share: d.Share, Until: timestamp(d.Until), Injected: d.Injected}
}

// Line tells, on the page, what the drill does and how long it still lasts.
func (d *drillStatus) Line(now time.Time) string {
	left := time.Time(d.Until).Sub(now)
	return fmt.Sprintf("fire drill: %s on %.4g %% of attempts, %d injected, %d s left",
		d.Fault, d.Share*100, d.Injected, max(int64((left+time.Second-1)/time.Second), 0))
}

// drill answers with the drill that runs, or null.
func (a *admin) drill(w http.ResponseWriter, r *http.Request) {
	s, ok := a.find(r.PathValue("name"))
	if !ok {
		noDependency(w)
		return
	}
	writeJSON(w, s.Drill)
}

// beginDrill carries an operator's order out and answers with the drill.
func (a *admin) beginDrill(w http.ResponseWriter, r *http.Request) {
	if !jsonOrNone(r) {
		w.Header().Set("Accept-Post", "application/json")
		writeProblem(w, http.StatusUnsupportedMediaType, "the body must be of Content-Type application/json")
		return
	}
	members, err := readMembers(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		status := http.StatusBadRequest
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			status = http.StatusRequestEntityTooLarge
		}
		writeProblem(w, status, drillForm)
		return
	}
	order, err := newDrill(members)
	if err != nil {
		writeProblem(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	a.answerDrill(w, r, a.Supervisor.Drill(r.PathValue("name"), order))
}

// endDrill ends the drill that runs, if any, and answers null.
func (a *admin) endDrill(w http.ResponseWriter, r *http.Request) {
	a.answerDrill(w, r, a.Supervisor.EndDrill(r.PathValue("name")))
}

// answerDrill answers an order with the drill as it stands then.
func (a *admin) answerDrill(w http.ResponseWriter, r *http.Request, err error) {
	if err != nil && !errors.Is(err, ErrUnknown) {
		writeProblem(w, http.StatusForbidden, err.Error())
		return
	}
	a.drill(w, r) // which looks for the name once more
}

// errMembers means that a body is not one object of plain members.
var errMembers = errors.New("not an object of plain members")

// readMembers reads one JSON object of strings, numbers, booleans and nulls,
// and nothing after it. Token by token, since a decoder would take members that
// stand twice or differ in case.
func readMembers(body io.Reader) (map[string]any, error) {
	decoder := json.NewDecoder(body)
	decoder.UseNumber()
	open, err := decoder.Token()
	if err != nil {
		return nil, err
	}
	if open != json.Delim('{') {
		return nil, errMembers
	}
	members := map[string]any{}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		value, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		key, _ := name.(string)
		_, nested := value.(json.Delim)
		if _, twice := members[key]; twice || nested {
			return nil, errMembers
		}
		members[key] = value
	}
	if _, err := decoder.Token(); err != nil { // the object's end
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.Join(errMembers, err)
	}
	return members, nil
}

// newDrill makes an order of its members. Its error says what was expected.
func newDrill(members map[string]any) (proxy.Drill, error) {
	d := proxy.Drill{Share: 1}
	faults := 0
	for _, name := range slices.Sorted(maps.Keys(members)) {
		value, err := members[name], error(nil)
		switch name {
		case "latency":
			d.Fault = proxy.FaultLatency
			d.Latency, err = duration(name, value)
		case "error":
			d.Fault = proxy.FaultError
			d.Status, err = errorStatus(value)
		case "refuse":
			d.Fault = proxy.FaultRefuse
			if value != true {
				err = fmt.Errorf("refuse must be true, got %v", value)
			}
		case "share":
			d.Share, err = share(value)
		case "for":
			d.For, err = duration(name, value)
		default:
			err = fmt.Errorf("unknown member %q; %s", name, drillForm)
		}
		if err != nil {
			return proxy.Drill{}, err
		}
		if name == string(d.Fault) {
			faults++
		}
	}
	if faults != 1 {
		return proxy.Drill{}, fmt.Errorf("exactly one of latency, error and refuse must be given, got %d", faults)
	}
	if d.For == 0 {
		return proxy.Drill{}, errors.New(`for is missing: say how long the drill runs, such as "30s"`)
	}
	return d, nil
}

// duration reads a length of time.
func duration(name string, value any) (time.Duration, error) {
	text, _ := value.(string)
	t, err := time.ParseDuration(text)
	if err != nil || t <= 0 || t > longestDrill {
		return 0, fmt.Errorf(`%s must be a duration with a unit such as "8s", above 0s and at most 1h, got %v`, name, value)
	}
	return t, nil
}

// errorStatus reads the status to inject.
func errorStatus(value any) (int, error) {
	number, _ := value.(json.Number)
	status, err := strconv.Atoi(number.String())
	if err != nil || status < 400 || status > 599 {
		return 0, fmt.Errorf("error must be a status from 400 to 599, got %v", value)
	}
	return status, nil
}

// share reads a percentage.
func share(value any) (float64, error) {
	text, _ := value.(string)
	digits, ok := strings.CutSuffix(text, "%")
	percent, err := strconv.ParseFloat(digits, 64)
	if err != nil || !ok || !(percent > 0 && percent <= 100) {
		return 0, fmt.Errorf(`share must be a percentage such as "50%%", above 0%% and at most 100%%, got %v`, value)
	}
	return percent / 100, nil
}
