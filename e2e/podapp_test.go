package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// appVariable names the environment variable that makes this test binary an
// app; its value is the URL of the dependency that the app calls.
const appVariable = "E2E_POD_APP"

// lastCalls is how many calls the app makes while it drains, beside one that is
// in flight all the time and a farewell.
const lastCalls = 5

func init() {
	if url := os.Getenv(appVariable); url != "" {
		(&podApp{url: url}).run()
		os.Exit(0)
	}
}

// appCall is what the app says of a call, a line of JSON each.
type appCall struct {
	Path   string
	Status int    // 0 without an answer
	Error  string // of the transport
}

// podApp is an app that calls its dependency without a pause, and has more to
// say to it when it is told to end.
type podApp struct {
	url string
	mu  sync.Mutex // one line at a time
}

// run lives the app's life until SIGTERM, and drains.
func (a *podApp) run() {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	a.call("/first")
	for told := false; !told; {
		select {
		case <-stop:
			told = true
		case <-time.After(10 * time.Millisecond):
			a.call("/steady")
		}
	}
	var slow sync.WaitGroup
	slow.Go(func() { a.call("/slow") })
	for range lastCalls {
		a.call("/last")
		time.Sleep(100 * time.Millisecond)
	}
	slow.Wait()
	time.Sleep(500 * time.Millisecond) // less than the second of silence after which the sidecar leaves
	a.call("/farewell")
}

// call makes one call and tells of it.
func (a *podApp) call(path string) {
	c := appCall{Path: path}
	res, err := http.Get(a.url + path)
	if err == nil {
		c.Status = res.StatusCode
		_, err = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}
	if err != nil {
		c.Error = err.Error()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	_ = json.NewEncoder(os.Stdout).Encode(c)
}
