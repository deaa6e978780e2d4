package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestCommand_Demo: the tour's own commands make search sick and well; its
// callers get stale copies and then its own answers again, and the other
// dependencies do not notice. It ends with exit code 0, by itself and at
// Ctrl-C.
func TestCommand_Demo(t *testing.T) {
	t.Parallel()
	for _, port := range []int{7001, 7002, 7003, 7101, 7102, 7103, 9900, 9901} {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			t.Skipf("the demo's port is taken: %v", err)
		}
		_ = l.Close()
	}
	begun := time.Now()
	if r := runCommand(t, []string{"demo", "--for", "1s"}); r.code != 0 || !strings.Contains(r.out, "Three dependencies") {
		t.Fatalf("sidecar demo --for 1s: %+v", r)
	}
	wantWithin(t, "a demo of 1s", time.Since(begun), 4*time.Second)

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := command(ctx, []string{"demo"})
	var complaints output
	cmd.Stderr = &complaints
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	tour, lines := readTour(t, out)
	client := newClient()
	defer client.CloseIdleConnections()
	call := func(method, url string) (status int, degraded, body string) {
		t.Helper()
		req, err := http.NewRequestWithContext(ctx, method, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", method, url, err, complaints.tail(20))
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		return res.StatusCode, res.Header.Get("Sidecar-Degraded"), string(text)
	}
	find := printedURL(t, tour, "/find")
	status, degraded, good := call(http.MethodGet, find)
	if status != http.StatusOK || degraded != "" || !strings.Contains(good, "search") {
		t.Fatalf("at first search answers %d %q %q", status, degraded, good)
	}
	call(http.MethodPost, printedURL(t, tour, "7103/sick"))
	var body string
	if !poll(8*time.Second, func() bool {
		status, degraded, body = call(http.MethodGet, find)
		return strings.HasPrefix(degraded, "stale; reason=open")
	}) || status != http.StatusOK || body != good {
		t.Fatalf("while search hangs: %d %q %q, want the copy %q", status, degraded, body, good)
	}
	for _, port := range []string{"7001", "7002"} {
		asked := time.Now()
		status, degraded, _ := call(http.MethodGet, "http://127.0.0.1:"+port+"/demo")
		if took := time.Since(asked); status != http.StatusOK || degraded != "" || took > time.Second {
			t.Errorf("port %s while search hangs: %d %q after %s", port, status, degraded, took)
		}
	}
	call(http.MethodPost, printedURL(t, tour, "7103/well"))
	if !poll(15*time.Second, func() bool {
		_, degraded, _ = call(http.MethodGet, find)
		return degraded == ""
	}) {
		t.Errorf("search does not recover: %q", degraded)
	}
	client.CloseIdleConnections()
	interrupted := time.Now()
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		for range lines { // to its end, so that the demo can write it
		}
		ended <- cmd.Wait()
	}()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the demo ended with %v:\n%s", err, complaints.tail(20))
		}
		wantWithin(t, "the demo's end after Ctrl-C", time.Since(interrupted), 3*time.Second)
	case <-time.After(patience):
		t.Errorf("the demo still runs %s after Ctrl-C", patience)
		_ = cmd.Process.Kill()
		<-ended
	}
}

// readTour returns what the demo prints before its first report, and the lines
// that follow.
func readTour(t *testing.T, out io.Reader) (tour string, lines <-chan string) {
	t.Helper()
	rest := make(chan string)
	go func() {
		defer close(rest)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			rest <- scanner.Text()
		}
	}()
	for {
		select {
		case line, more := <-rest:
			tour += line + "\n"
			if strings.Contains(line, "Ctrl-C") {
				return tour, rest
			}
			if !more {
				t.Fatalf("the demo ended early:\n%s", tour)
			}
		case <-time.After(patience):
			t.Fatalf("the demo printed no tour:\n%s", tour)
		}
	}
}

// printedURL returns the first URL of the tour that holds a text.
func printedURL(t *testing.T, tour, text string) string {
	t.Helper()
	for _, url := range regexp.MustCompile(`http://[^\s']+`).FindAllString(tour, -1) {
		if strings.Contains(url, text) {
			return url
		}
	}
	t.Fatalf("no URL with %q in:\n%s", text, tour)
	return ""
}
