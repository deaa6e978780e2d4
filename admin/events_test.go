package admin

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"regexp"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// feed is a source of events: what is published reaches every subscriber.
type feed struct {
	mu          sync.Mutex // guards everything below
	subscribers []chan string
}

func (f *feed) publish(event string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.subscribers {
		s <- event
	}
}

// subscribe is a Subscribe.
func (f *feed) subscribe(ctx context.Context) func(context.Context) (string, []byte, error) {
	events := make(chan string, 8)
	f.mu.Lock()
	f.subscribers = append(f.subscribers, events)
	f.mu.Unlock()
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
		var source feed
		drain, startDrain := context.WithCancel(t.Context())
		o := options(newFake())
		o.Subscribe, o.Drain = source.subscribe, drain
		h := New(o)
		var w *httptest.ResponseRecorder
		done := make(chan struct{})
		began := time.Now()
		go func() { defer close(done); w = ask(h, request("GET", "/api/events", "")) }()

		time.Sleep(10*time.Second + 500*time.Millisecond) // 11 statuses.
		source.publish(`{"n":1}`)
		time.Sleep(2200 * time.Millisecond) // One for the event, two for the time.
		source.publish(`{"n":2}`)
		synctest.Wait() // One more.
		startDrain()
		<-done
		if got, want := time.Since(began), 12*time.Second+700*time.Millisecond; got != want {
			t.Errorf("the stream lasted %v, want %v", got, want)
		}
		rest, n := statuses(w.Body.String())
		const want = greeting + "event: transition\ndata: {\"n\":1}\n\n" + "event: transition\ndata: {\"n\":2}\n\n"
		if n != 15 || rest != want || w.Header().Get("Content-Type") != "text/event-stream" {
			t.Errorf("stream has %d statuses, want 15, and %q, want %q", n, rest, want)
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
	var source feed
	drain, startDrain := context.WithCancel(t.Context())
	o := options(newFake())
	o.Subscribe, o.Drain = source.subscribe, drain
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
	source.publish(`{"n":1}`)
	expect(`data: {"n":1}`)
	source.publish(`{"n":2}`)
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
