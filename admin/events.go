package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

const (
	// heartbeat is the longest silence of an event stream. A comment ends it,
	// so that either side notices when the other is gone.
	heartbeat = 15 * time.Second
	// writeTimeout ends a stream whose reader does not read.
	writeTimeout = 10 * time.Second
	// maxStreams bounds the streams that are open at once.
	maxStreams = 32
)

// events sends transitions, drills and reloads as server-sent events until the client
// leaves or the process drains.
func (a *admin) events(w http.ResponseWriter, r *http.Request) {
	defer a.streams.Add(-1)
	if a.streams.Add(1) > maxStreams {
		w.Header().Set("Retry-After", "5")
		writeProblem(w, http.StatusServiceUnavailable, "too many event streams are open; close one")
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(a.Drain, cancel)()

	next := a.Subscribe(ctx)
	out := stream{w, http.NewResponseController(w)}
	defer out.release()
	if out.send(": events follow\n\n") != nil {
		return
	}
	for {
		wait, done := context.WithTimeout(ctx, heartbeat)
		name, data, err := next(wait)
		done()
		switch {
		case err == nil:
			err = out.send("event: %s\ndata: %s\n\n", name, data)
		case ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
			err = out.send(": heartbeat\n\n")
		}
		if err != nil {
			return
		}
	}
}

// stream writes pieces of an answer, each at once.
type stream struct {
	http.ResponseWriter
	control *http.ResponseController
}

// send writes and flushes, within the writeTimeout.
func (s stream) send(format string, values ...any) error {
	err := s.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := fmt.Fprintf(s, format, values...); err != nil {
		return err
	}
	return s.control.Flush()
}

// release gives the connection back without a deadline.
func (s stream) release() { _ = s.control.SetWriteDeadline(time.Time{}) }
