package admin

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"
	"testing/synctest"
	"time"
)

// feed is a Subscribe whose events come from a channel.
func feed(events <-chan string) Subscribe {
	return func(ctx context.Context) func(context.Context) (string, []byte, error) {
		return func(wait context.Context) (string, []byte, error) {
			select {
			case e := <-events:
				return "transition", []byte(e), nil
			case <-wait.Done():
				return "", nil, context.Cause(wait)
			case <-ctx.Done():
				return "", nil, context.Cause(ctx)
			}
		}
	}
}

// statuses cuts the status events out of a stream and returns the rest and
// their number.
func statuses(text string) (rest string, n int) {
	status := regexp.MustCompile(`event: status\ndata: \{"at":.*\}\n\n`)
	return status.ReplaceAllString(text, ""), len(status.FindAllString(text, -1))
}

// TestEventStream drives a stream in virtual time: a status at once, one each
// second, events as they come, and an end when the process drains.
func TestEventStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := make(chan string)
		drain, startDrain := context.WithCancel(t.Context())
		o := options(newFake())
		o.Subscribe, o.Drain = feed(events), drain
		h := New(o)
		var w *httptest.ResponseRecorder
		done := make(chan struct{})
		began := time.Now()
		go func() { defer close(done); w = ask(h, request("GET", "/api/events", "")) }()

		time.Sleep(10*time.Second + 500*time.Millisecond) // 11 statuses.
		startDrain()
		<-done
		if got, want := time.Since(began), 10*time.Second+500*time.Millisecond; got != want {
			t.Errorf("the stream lasted %v, want %v", got, want)
		}
		rest, n := statuses(w.Body.String())
		if n != 11 || rest != greeting || w.Header().Get("Content-Type") != "text/event-stream" {
			t.Errorf("stream has %d statuses, want 11, and %q", n, rest)
		}
	})
}

func TestEventStreamEndsWithTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, leave)
		began := time.Now()
		ask(New(options(newFake())), request("GET", "/api/events", "").WithContext(ctx))
		if got := time.Since(began); got != time.Second {
			t.Errorf("the stream lasted %v after the client left", got)
		}
	})
}

// TestEventStreamEndsWithItsSource must not spin on a source that fails.
func TestEventStreamEndsWithItsSource(t *testing.T) {
	o := options(newFake())
	o.Subscribe = func(context.Context) func(context.Context) (string, []byte, error) {
		return func(context.Context) (string, []byte, error) { return "", nil, errors.New("over") }
	}
	w := ask(New(o), request("GET", "/api/events", ""))
	if got, _ := statuses(w.Body.String()); got != greeting {
		t.Errorf("stream is %q", got)
	}
}

func TestEventStreamsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		drain, startDrain := context.WithCancel(t.Context())
		o := options(newFake())
		o.Drain = drain
		h := New(o)
		for range maxStreams {
			go ask(h, request("GET", "/api/events", ""))
		}
		synctest.Wait()
		w := ask(h, request("GET", "/api/events", ""))
		expectProblem(t, w, 503)
		if w.Header().Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		startDrain()
		synctest.Wait()
		if w := ask(h, request("GET", "/api/events", "")); w.Code != 200 { // Draining: it begins and ends at once.
			t.Errorf("after all have ended a stream is answered with %d", w.Code)
		}
	})
}

// TestEventStreamOverASocket reads events as they come, and uses the
// connection again after the stream has ended.
func TestEventStreamOverASocket(t *testing.T) {
	events := make(chan string, 1)
	drain, startDrain := context.WithCancel(t.Context())
	o := options(newFake())
	o.Subscribe, o.Drain = feed(events), drain
	server := httptest.NewServer(New(o))
	defer server.Close()
	r, err := server.Client().Get(server.URL + "/api/events")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	lines := bufio.NewScanner(r.Body)
	expect := func(want string) {
		t.Helper()
		for lines.Scan() && lines.Text() != want {
		}
		if lines.Text() != want {
			t.Fatalf("the stream ended (%v) before %q", lines.Err(), want)
		}
	}
	expect(": events follow")
	expect("event: status")
	events <- `{"n":1}`
	expect(`data: {"n":1}`)
	events <- `{"n":2}`
	expect(`data: {"n":2}`)
	startDrain()
	for lines.Scan() { // What was on its way.
	}
	if lines.Err() != nil {
		t.Errorf("after the drain comes %v", lines.Err())
	}
	again, err := server.Client().Get(server.URL + "/livez")
	if err != nil {
		t.Fatal(err)
	}
	again.Body.Close()
	if again.StatusCode != http.StatusOK {
		t.Errorf("the connection answers %d after the stream", again.StatusCode)
	}
}
