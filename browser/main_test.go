package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
)

// shared is what all tests use: the sidecar's binary and one browser, both
// made when the first test asks.
var shared struct {
	folder  string
	build   func() (path string, err error)
	browser func() (context.Context, error)
	close   []func()
}

func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "sidecar-browser-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	shared.folder = folder
	shared.build = sync.OnceValues(build)
	shared.browser = sync.OnceValues(launch)
	code := m.Run()
	for _, f := range shared.close {
		f()
	}
	_ = os.RemoveAll(folder)
	os.Exit(code)
}

// build builds the sidecar as it is released.
func build() (string, error) {
	path := filepath.Join(shared.folder, "sidecar")
	cmd := exec.Command("go", "build", "-o", path, "sidecar/cmd/sidecar")
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
}

// chromium returns the path of a browser, or "".
func chromium() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// launch starts the browser.
func launch() (context.Context, error) {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium()))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium's own sandbox refuses root.
	}
	allocator, endAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, end := chromedp.NewContext(allocator)
	shared.close = append(shared.close, func() {
		_ = chromedp.Cancel(ctx) // It is asked to end, and waited for.
		end()
		endAllocator()
	})
	return ctx, chromedp.Do(ctx)
}
