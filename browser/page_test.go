package browser

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// TestSickAndWell: a circuit that opens and closes is on the page within a
// second of doing so, with its reason and the time left, which counts down.
func TestSickAndWell(t *testing.T) {
	s := start(t, "search, breaker: {cooldown: 3s}", "catalog")
	b := open(t, s)
	b.wait(part("search", "state") + " === 'closed'")
	shown := fmt.Sprintf(`{ const state = (%s).querySelector('[data-part=state]'); window.shown = {};
		new MutationObserver(() => window.shown[state.textContent] ??= Date.now()).observe(state, {childList: true, characterData: true, subtree: true}) }`, card("search"))
	eval[chromedp.Void](b, shown)
	expect := func(state string) {
		t.Helper()
		b.wait(fmt.Sprintf("window.shown[%q]", state))
		at := time.UnixMilli(eval[int64](b, fmt.Sprintf("window.shown[%q]", state)))
		lag := at.Sub(s.state("search").Breaker.Since)
		t.Logf("%s is shown after %v", state, lag)
		if lag > time.Second {
			t.Errorf("%s is shown after %v, want at most 1s", state, lag)
		}
	}
	s.fail("search")
	expect("open")
	if got := eval[string](b, part("search", "why")); got != "3 failures in a row" {
		t.Errorf("the page says %q", got)
	}
	b.wait(part("search", "left") + " === '3 s left'")
	b.wait(part("search", "left") + " === '1 s left'")
	b.wait("document.querySelector('.card [data-part=name]').textContent === 'search'") // the sickest is first
	if got := eval[string](b, "document.getElementById('summary').textContent"); got != "1 of 2 circuits is not closed" {
		t.Errorf("the summary is %q", got)
	}
	for deadline := time.Now().Add(testTimeout); s.state("search").Breaker.State != "closed" && time.Now().Before(deadline); {
		s.call("search")
		time.Sleep(20 * time.Millisecond)
	}
	expect("closed")
	b.wait("document.getElementById('summary').textContent === 'All closed: 2 dependencies'")
	if got := eval[string](b, fmt.Sprintf("(%s).querySelector('[data-part=transitions]').textContent", card("search"))); !strings.Contains(got, "closed → open: 3 failures in a row") {
		t.Errorf("the transitions are %q", got)
	}
}

// TestForceAndRelease: each order is asked for once, can be taken back there,
// and is on the page while it is in force.
func TestForceAndRelease(t *testing.T) {
	s := start(t, "search")
	b := open(t, s)
	b.wait(part("search", "state") + " === 'closed'")
	b.click("search", "open", "no")
	time.Sleep(200 * time.Millisecond)
	if s.state("search").Breaker.Forced {
		t.Fatal("an order that was taken back is in force")
	}
	for _, order := range []string{"open", "closed"} {
		b.click("search", order, "yes")
		b.wait(part("search", "note") + " === 'forced by an operator' && " + part("search", "state") + fmt.Sprintf(" === %q", order))
		b.wait(fmt.Sprintf("document.getElementById('orders').checkVisibility() && document.getElementById('orders').textContent.startsWith('search: %s since ')", order))
		if d := s.state("search"); !d.Breaker.Forced || d.Breaker.State != order {
			t.Errorf("the API says %+v, want forced %s", d.Breaker, order)
		}
	}
	b.click("search", "auto", "yes")
	b.wait(part("search", "note") + " === null && !document.getElementById('orders').checkVisibility()")
	if s.state("search").Breaker.Forced {
		t.Error("the circuit is still forced")
	}
}

// TestReloadFault: a refused configuration is on the page with each fault at
// its line, until a good one comes.
func TestReloadFault(t *testing.T) {
	s := start(t, "search")
	b := open(t, s)
	b.wait(part("search", "state") + " === 'closed'")
	eval[chromedp.Void](b, "document.querySelector('#config summary').click()")
	b.wait("document.getElementById('config-text').textContent.includes('name: search')")
	good, err := os.ReadFile(s.path)
	if err != nil {
		t.Fatal(err)
	}
	reload := func(text string) {
		t.Helper()
		s.configure(text)
		eval[chromedp.Void](b, "document.getElementById('reload').click()")
		b.wait("document.getElementById('confirm').open")
		eval[chromedp.Void](b, "document.querySelector('#confirm [data-part=yes]').click()")
	}
	b.excuse(true) // The browser logs the answer 422.
	reload(string(good) + "nonsense: 1\n")
	b.wait("document.getElementById('refused').checkVisibility()")
	want := fmt.Sprintf("sidecar.yaml:%d: nonsense: ", strings.Count(string(good), "\n")+1)
	if got := eval[string](b, "document.querySelector('#refused pre').textContent"); !strings.Contains(got, want) {
		t.Errorf("the page shows %q, want %q", got, want)
	}
	b.excuse(false)
	reload(strings.Replace(string(good), "name: \"search\"", "name: \"found\"", 1))
	b.wait("!document.getElementById('refused').checkVisibility() && document.getElementById('loaded').checkVisibility()")
	b.wait(part("found", "state") + " === 'closed' && document.querySelectorAll('.card').length === 1")
	b.wait("document.getElementById('config-text').textContent.includes('name: found')")
}

// TestConnectionLost: what is shown is not shown as current while nothing
// comes, whether the sidecar is gone or only silent; the page comes back by
// itself.
func TestConnectionLost(t *testing.T) {
	s := start(t, "search, breaker: {cooldown: 5m}")
	b := open(t, s)
	b.wait(part("search", "state") + " === 'closed'")
	s.fail("search")
	b.wait(part("search", "left"))
	lost := "document.getElementById('lost').checkVisibility() && document.body.classList.contains('old') && !" + part("search", "left")
	found := "!document.getElementById('lost').checkVisibility() && !document.body.classList.contains('old')"

	if err := s.process.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Logf("silence is noticed after %v", b.wait(lost))
	if got := eval[string](b, "getComputedStyle(document.querySelector('.card .state'), '::before').content"); got != `"last known: "` {
		t.Errorf("before the state stands %s", got)
	}
	if err := s.process.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	b.wait(found + " && " + part("search", "left"))

	b.excuse(true)
	s.stop(syscall.SIGKILL)
	t.Logf("an end is noticed after %v", b.wait(lost))
	s.run()
	b.wait(found + " && " + part("search", "state") + " === 'closed'")
	b.excuse(false)
}

// TestMarkup: what comes from outside is text.
func TestMarkup(t *testing.T) {
	const name = `<img src=x onerror=alert(1)>"'&<b>`
	s := start(t, name+", breaker: {mode: observe}")
	b := open(t, s)
	b.wait(part(name, "state") + " === 'closed'")
	if n := eval[int](b, "document.querySelectorAll('img, b:not([data-part])').length"); n != 0 {
		t.Errorf("the name became %d elements", n)
	}
	b.click(name, "open", "yes")
	b.wait(part(name, "state") + " === 'open' && " + part(name, "note") + " === 'forced by an operator'")
}

// TestWithoutScripts: the table of the server is there and right.
func TestWithoutScripts(t *testing.T) {
	s := start(t, "search", "catalog")
	s.fail("search")
	b := open(t, s, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
		return err
	}))
	table := eval[string](b, "document.querySelector('table').innerText")
	d := s.state("search")
	row := fmt.Sprintf("search\t%s\topen\t3 failures in a row\t1 s\t0 / 20\t0\t0\t%d\t0\t%d\t0", s.addresses["search"], d.Requests["failed"], d.Requests["rejected"])
	if !strings.Contains(table, row) || !strings.Contains(table, "catalog\t"+s.addresses["catalog"]+"\tclosed\t") {
		t.Errorf("the table is\n%s\nwant a row\n%s", table, row)
	}
}
