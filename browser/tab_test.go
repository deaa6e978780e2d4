package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// tab is a page in the browser, and all that is wrong with it: errors on the
// console, exceptions, violations of the content security policy, requests to
// anywhere but the sidecar.
type tab struct {
	t    *testing.T
	ctx  context.Context
	host string // that may be asked

	mu       sync.Mutex // guards everything below
	troubles []string
	excused  bool // troubles are expected: the sidecar is down
}

// open opens the status page in a tab of its own, 1280 by 800 unless actions
// change it. At the test's end nothing may have been wrong with it.
func open(t *testing.T, s *sidecar, actions ...chromedp.Action[chromedp.Void]) *tab {
	t.Helper()
	browser, err := shared.browser()
	if err != nil {
		t.Fatalf("chromium cannot be started: %v", err)
	}
	ctx, end := chromedp.NewContext(browser)
	ctx, cancel := context.WithTimeout(ctx, 4*testTimeout+3**lead)
	b := &tab{t: t, ctx: ctx, host: s.admin}
	t.Cleanup(func() {
		cancel()
		end()
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, trouble := range b.troubles {
			t.Error(trouble)
		}
	})
	b.do(chromedp.EmulateViewport(1280, 800))
	if err := chromedp.Listen(ctx, b.listen); err != nil {
		t.Fatal(err)
	}
	command(b, log.Enable, cdp.Empty{})
	command(b, network.Enable, network.EnableParams{})
	b.do(actions...)
	b.do(chromedp.Navigate("http://" + s.admin + "/"))
	return b
}

// listen notes what is wrong.
func (b *tab) listen(event any) {
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.note("exception: %+v", e.ExceptionDetails)
	case *runtime.EventConsoleAPICalled:
		if e.Type != runtime.ConsoleAPICalledTypeLog {
			b.note("console: %s %v", e.Type, e.Args)
		}
	case *log.EventEntryAdded:
		if e.Entry.Level != log.EntryLevelInfo && e.Entry.Level != log.EntryLevelVerbose {
			b.note("log: %s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		u, err := url.Parse(e.Request.URL)
		if err != nil || u.Host != b.host && u.Scheme != "data" {
			b.note("request to %s", e.Request.URL)
		}
	}
}

func (b *tab) note(format string, values ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.excused {
		b.troubles = append(b.troubles, fmt.Sprintf(format, values...))
	}
}

// excuse says whether troubles are expected.
func (b *tab) excuse(yes bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.excused = yes
}

// do carries actions out.
func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// command sends a command of the DevTools protocol.
func command[P, R any](b *tab, c cdp.Command[P, R], params P) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, c, params); err != nil {
		b.t.Fatal(err)
	}
}

// eval returns the value of an expression of JavaScript.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// wait waits until an expression is true, and returns how long that took.
func (b *tab) wait(expression string) time.Duration {
	b.t.Helper()
	begun := time.Now()
	for !eval[bool](b, "!!("+expression+")") {
		if time.Since(begun) > 15*time.Second {
			b.t.Fatalf("waited in vain for %s; the page shows:\n%s", expression, eval[string](b, "document.body.innerText"))
		}
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(begun)
}

// card is the JavaScript of a dependency's card.
func card(name string) string {
	text, _ := json.Marshal(name)
	return fmt.Sprintf("[...document.querySelectorAll('.card')].find(c => c.querySelector('[data-part=name]').textContent === %s)", text)
}

// part is the JavaScript of the text of a card's part; null while it is hidden.
func part(name, part string) string {
	return fmt.Sprintf("(e => e && !e.hidden ? e.textContent : null)((%s)?.querySelector('[data-part=%s]'))", card(name), part)
}

// click clicks a card's button, and then the dialog's.
func (b *tab) click(name, order, answer string) {
	b.t.Helper()
	eval[chromedp.Void](b, fmt.Sprintf("(%s).querySelector('button[value=%s]').click()", card(name), order))
	b.wait("document.getElementById('confirm').open")
	eval[chromedp.Void](b, fmt.Sprintf("document.querySelector('#confirm [data-part=%s]').click()", answer))
}
