package admin

import (
	"bytes"
	"embed"
	"html/template"
	"io/fs"
	"net/http"
	"strings"
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
	w.Header().Set("Content-Security-Policy", pagePolicy)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(page.Bytes()) // An error means that the client has left.
}

// files returns the addresses of what the page loads: every embedded file but
// the page itself.
func files() []string {
	var paths []string
	_ = fs.WalkDir(web, "web", func(name string, entry fs.DirEntry, _ error) error { // Embedded files can be read.
		if path := strings.TrimPrefix(name, "web"); !entry.IsDir() && path != "/index.html" {
			paths = append(paths, path)
		}
		return nil
	})
	return paths
}

// file answers with one of the files.
func file(path string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, web, "web"+path) }
}
