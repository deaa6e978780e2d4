package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

const (
	// writeTimeout ends a stream whose reader does not read.
	writeTimeout = 10 * time.Second
	// maxStreams bounds the streams that are open at once.
	maxStreams = 32
	// greeting begins a stream. A browser that loses it comes back after a
	// second.
	greeting = ": events follow\nretry: 1000\n\n"
)

// events sends transitions, drills, reloads and the status of all dependencies
// as server-sent events until the client leaves or the process drains. A reader
// that falls behind misses statuses, never the latest one.
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

	happened := arrivals(ctx, a.Subscribe(ctx))
	beat := a.pulse.join()
	defer a.pulse.leave()
	out := stream{w, http.NewResponseController(w)}
	defer out.release()
	err := out.send(greeting)
	for err == nil {
		status, newer := beat.take()
		if status != nil {
			err = out.send("event: status\ndata: %s\n\n", status)
		}
		for waiting := true; waiting && err == nil; {
			select {
			case e, ok := <-happened:
				if !ok {
					return
				}
				err = out.send("event: %s\ndata: %s\n\n", e.name, e.data)
			case <-newer:
				waiting = false
			}
		}
	}
}

// arrival is an event on its way to a stream.
type arrival struct {
	name string
	data []byte
}

// arrivals turns a source of events into a channel, which is closed when the
// source or ctx ends.
func arrivals(ctx context.Context, next func(context.Context) (string, []byte, error)) <-chan arrival {
	events := make(chan arrival)
	go func() {
		defer close(events)
		for {
			name, data, err := next(ctx)
			if err != nil {
				return
			}
			select {
			case events <- arrival{name, data}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return events
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
