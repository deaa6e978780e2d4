package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"

	"sidecar/resilience/breaker"
)

// maxBody bounds the body of a write; an order takes some twenty bytes.
const maxBody = 4 << 10

// orders are the words of an operator's order.
var orders = map[string]breaker.Forced{
	breaker.ForcedOpen.String():   breaker.ForcedOpen,
	breaker.ForcedClosed.String(): breaker.ForcedClosed,
	breaker.Auto.String():         breaker.Auto,
}

// dependencies answers with all dependencies, and with the last reload where it
// failed.
func (a *admin) dependencies(w http.ResponseWriter, _ *http.Request) {
	all := map[string]any{"dependencies": a.statuses()}
	if last := a.lastReload(); last.Error != "" {
		all["reload"] = last
	}
	writeJSON(w, all)
}

// dependency answers with one dependency.
func (a *admin) dependency(w http.ResponseWriter, r *http.Request) {
	s, ok := a.find(r.PathValue("name"))
	if !ok {
		noDependency(w)
		return
	}
	writeJSON(w, &s)
}

// noDependency answers for an unknown name.
func noDependency(w http.ResponseWriter) {
	writeProblem(w, http.StatusNotFound, "there is no dependency of this name; /api/dependencies lists them")
}

// force carries an operator's order out and answers with the dependency as it
// stands then.
func (a *admin) force(w http.ResponseWriter, r *http.Request) {
	if !jsonOrNone(r) {
		w.Header().Set("Accept-Post", "application/json")
		writeProblem(w, http.StatusUnsupportedMediaType, "the body must be of Content-Type application/json")
		return
	}
	order, err := readOrder(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		status := http.StatusBadRequest
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			status = http.StatusRequestEntityTooLarge
		}
		writeProblem(w, status, `the body must be {"force":"open"}, {"force":"closed"} or {"force":"auto"}`)
		return
	}
	name := r.PathValue("name")
	if a.Supervisor.Force(name, order) != nil {
		noDependency(w)
		return
	}
	a.dependency(w, r)
}

// jsonOrNone reports whether a body is declared as JSON or not at all.
func jsonOrNone(r *http.Request) bool {
	declared := r.Header.Get("Content-Type")
	if declared == "" {
		return true
	}
	mediaType, _, err := mime.ParseMediaType(declared)
	return err == nil && mediaType == "application/json"
}

// errOrder means that a body is not exactly one order.
var errOrder = errors.New("not an order")

// readOrder reads one JSON object with the one member "force", spelt exactly
// so, and nothing after it. Token by token, since a decoder would take members
// that stand twice or differ in case.
func readOrder(body io.Reader) (breaker.Forced, error) {
	decoder := json.NewDecoder(body)
	var tokens []json.Token
	for len(tokens) < 5 {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return breaker.Auto, err
		}
		tokens = append(tokens, token)
	}
	if len(tokens) != 4 || tokens[0] != json.Delim('{') || tokens[1] != "force" || tokens[3] != json.Delim('}') {
		return breaker.Auto, errOrder
	}
	word, _ := tokens[2].(string)
	order, ok := orders[word]
	if !ok {
		return breaker.Auto, errOrder
	}
	return order, nil
}

// config answers with the effective configuration.
func (a *admin) config(w http.ResponseWriter, _ *http.Request) {
	text, err := a.Supervisor.EffectiveConfig()
	if err != nil {
		writeProblem(w, http.StatusInternalServerError, "the configuration cannot be shown: "+err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(text) // An error means that the client has left.
}

// reload reads and applies the configuration. Once asked for it is carried
// out, also when the client does not wait for the end.
func (a *admin) reload(w http.ResponseWriter, r *http.Request) {
	err := a.Supervisor.Reload(context.WithoutCancel(r.Context()))
	if err == nil {
		writeJSON(w, map[string]string{"result": "success"})
		return
	}
	faults := a.Faults(err)
	if faults == nil {
		faults = []Fault{}
	}
	const status = http.StatusUnprocessableEntity
	writeBody(w, status, "application/problem+json", reloadProblem{
		problem: newProblem(status, "the new configuration was refused, the running one stays; correct the faults and reload again"),
		Error:   err.Error(),
		Faults:  faults,
	})
}
