package admin

import (
	"encoding/json"
	"io"
	"net/http"
)

// problem is the body of an error (RFC 9457).
type problem struct {
	Status int    `json:"status"`
	Title  string `json:"title"`
	Detail string `json:"detail"`
}

// reloadProblem is the body of a reload's 422.
type reloadProblem struct {
	problem
	Error  string  `json:"error"`
	Faults []Fault `json:"faults"`
}

// newProblem describes an error.
func newProblem(status int, detail string) problem {
	return problem{Status: status, Title: http.StatusText(status), Detail: detail}
}

// writeProblem answers with an error. The detail ends in a remedy where there
// is one.
func writeProblem(w http.ResponseWriter, status int, detail string) {
	writeBody(w, status, "application/problem+json", newProblem(status, detail))
}

// writeJSON answers 200 with a value as JSON.
func writeJSON(w http.ResponseWriter, value any) {
	writeBody(w, http.StatusOK, "application/json", value)
}

// writeBody answers with a value as JSON. The value must be one that JSON can
// hold. An error of writing means that the client has left.
func writeBody(w http.ResponseWriter, status int, contentType string, value any) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value)
}

// writeText answers 200 with plain text.
func writeText(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, text)
}

// notFound answers for every other address.
func notFound(w http.ResponseWriter, _ *http.Request) {
	writeProblem(w, http.StatusNotFound, "there is nothing at this address; the page at / shows what there is")
}
