package admin

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"
	"time"
)

//go:embed web
var web embed.FS

var index = template.Must(template.ParseFS(web, "web/index.html"))

// view is what the page shows.
type view struct {
	Version      string
	Now          time.Time
	LoadedAt     time.Time
	LoadError    string // why the last reload failed, or empty
	Dependencies []status
}

// page answers with the status page.
func (a *admin) page(w http.ResponseWriter, _ *http.Request) {
	v := view{Version: a.Version, Now: time.Now().UTC(), Dependencies: a.statuses()}
	at, err := a.Statistics.LastReload()
	v.LoadedAt = at.UTC()
	if err != nil {
		v.LoadError = err.Error()
	}
	var page bytes.Buffer
	if err := index.Execute(&page, &v); err != nil {
		writeProblem(w, http.StatusInternalServerError, "the page cannot be shown: "+err.Error())
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(page.Bytes()) // An error means that the client has left.
}

// style answers with the page's style sheet.
func style(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, web, "web/style.css") }
