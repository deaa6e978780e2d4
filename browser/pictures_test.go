package browser

import (
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

var lead = flag.Duration("lead", time.Second, "how long the demo of the pictures runs before search gets sick, twice")

// TestPictures takes pictures of the demo while search is sick: the page of a
// desk and of a phone, light and dark. With -artifacts they are kept; the light
// one of a desk, after a -lead of some minutes, is docs/page.png.
func TestPictures(t *testing.T) {
	if chromium() == "" {
		t.Skip("no chromium on the PATH; install one (apt-get install chromium) to test the page")
	}
	s := demo(t)
	b := open(t, s)
	b.wait(part("search", "state") + " === 'closed'")
	for _, length := range []time.Duration{*lead / 4, *lead} { // Sick for a while, and sick again.
		time.Sleep(*lead)
		s.post("http://127.0.0.1:7103/sick?latency=8s")
		b.wait(part("search", "state") + " === 'open'")
		if length < *lead {
			time.Sleep(length)
			s.post("http://127.0.0.1:7103/well")
		}
	}
	b.wait(part("search", "users") + ".includes('100 % fallbacks') && " + part("search", "left") + " === '4 s left'")
	for _, look := range []struct {
		name          string
		width, height int64
		scheme        string
	}{
		{"desk-light", 1320, 720, "light"}, {"desk-dark", 1320, 720, "dark"},
		{"phone-light", 390, 844, "light"}, {"phone-dark", 390, 844, "dark"},
	} {
		b.scheme(look.scheme)
		b.do(chromedp.EmulateViewport(look.width, look.height))
		time.Sleep(1200 * time.Millisecond) // The charts follow at the next status.
		if wide := eval[int](b, "document.scrollingElement.scrollWidth"); int64(wide) > look.width {
			t.Errorf("%s: the page is %d wide", look.name, wide)
		}
		b.save(look.name)
	}
}

// demo runs "sidecar demo".
func demo(t *testing.T) *sidecar {
	t.Helper()
	for _, port := range []int{7001, 7002, 7003, 7101, 7102, 7103, 9900, 9901} {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			t.Skipf("the demo's port is taken: %v", err)
		}
		_ = l.Close()
	}
	binary, err := shared.build()
	if err != nil {
		t.Fatal(err)
	}
	s := &sidecar{t: t, admin: "127.0.0.1:9900", process: exec.Command(binary, "demo")}
	if err := s.process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.stop(syscall.SIGTERM) })
	s.awaitReady()
	return s
}

func (s *sidecar) post(url string) {
	s.t.Helper()
	res, err := http.Post(url, "", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	_ = res.Body.Close()
}

// scheme sets the colour scheme that the operator prefers.
func (b *tab) scheme(name string) {
	b.t.Helper()
	command(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
	})
}

// save keeps a picture of what is on the screen.
func (b *tab) save(name string) {
	b.t.Helper()
	picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(filepath.Join(b.t.ArtifactDir(), name+".png"), picture, 0o600)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}
