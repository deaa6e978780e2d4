package stale

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fields makes headers of lines such as "Vary: Accept".
func fields(lines ...string) http.Header {
	h := http.Header{}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		h.Add(name, value)
	}
	return h
}

// rig is a store with one shelf, in simulated time.
type rig struct {
	*testing.T
	store *Store
	shelf *Shelf
}

// bubble runs a test on a store of 1 MiB in a bubble with its own clock.
func bubble(t *testing.T, test func(*rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{T: t, store: NewStore(1<<20, 64<<10)}
		r.shelf = r.store.Shelf("payments", "http://upstream.internal")
		r.shelf.Want(true)
		test(r)
		r.store.Close()
	})
}

// asked is a GET with headers.
func asked(header http.Header) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	r.Header = header
	if header == nil {
		r.Header = http.Header{}
	}
	return r
}

// given is an answer whose headers came at once.
type given struct {
	ticket Ticket
	status int // 0 = 200
	req    http.Header
	header http.Header
	body   string
	varyBy []string
}

// keep passes an answer through the store.
func (r *rig) keep(g given) {
	r.Helper()
	if g.ticket.shelf == nil {
		g.ticket = r.shelf.Ask("/x")
	}
	if g.status == 0 {
		g.status = 200
	}
	if g.header == nil {
		g.header = http.Header{}
	}
	now := time.Now()
	res := &http.Response{StatusCode: g.status, Header: g.header, ContentLength: int64(len(g.body))}
	rec := g.ticket.Record(Answer{Request: asked(g.req), Response: res, VaryBy: g.varyBy, Asked: now, Arrived: now})
	rec.Write([]byte(g.body))
	rec.Commit()
}

// find returns the body of the copy for a request, or "-".
func (r *rig) find(target string, header http.Header, varyBy ...string) string {
	c := r.shelf.Find(target, asked(header), time.Now(), time.Hour, varyBy)
	if c == nil {
		return "-"
	}
	return string(c.body)
}

// want checks the body of the copy for a request.
func (r *rig) want(body string, header ...string) {
	r.Helper()
	if got := r.find("/x", fields(header...)); got != body {
		r.Errorf("%v finds %q, want %q", header, got, body)
	}
}
