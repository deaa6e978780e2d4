package browser

import (
	_ "embed"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

//go:embed testdata/axe.min.js
var axe string

// TestAccessible: axe-core finds nothing serious, light and dark, wide and
// narrow, in every part of the page.
func TestAccessible(t *testing.T) {
	s := start(t, "search, breaker: {cooldown: 5m}, shadow: {bulkhead: {max_concurrent: 5}}", "catalog")
	b := open(t, s)
	b.wait(part("search", "state") + " === 'closed'")
	s.fail("search")
	b.click("catalog", "closed", "yes")
	b.wait(part("search", "state") + " === 'open' && " + part("catalog", "note"))
	eval[chromedp.Void](b, "document.querySelectorAll('details').forEach(d => d.open = true)")
	b.wait("document.getElementById('config-text').textContent")
	eval[chromedp.Void](b, axe)
	for _, look := range []struct {
		scheme        string
		width, height int64
	}{{"light", 1280, 800}, {"dark", 1280, 800}, {"dark", 360, 740}} {
		b.scheme(look.scheme)
		b.do(chromedp.EmulateViewport(look.width, look.height))
		b.examine(fmt.Sprint(look))
	}
	eval[chromedp.Void](b, fmt.Sprintf("(%s).querySelector('button[value=open]').click()", card("search")))
	b.wait("document.getElementById('confirm').open")
	b.examine("the dialog")
}

// examine reports what axe finds serious or critical.
func (b *tab) examine(where string) {
	b.t.Helper()
	time.Sleep(300 * time.Millisecond) // The new colours must be there.
	if n := eval[int](b, "axe.run().then(r => r.passes.length)"); n < 10 {
		b.t.Errorf("%s: axe has looked at no more than %d rules", where, n)
	}
	found := eval[[]string](b, `axe.run().then(r => r.violations
		.filter(v => v.impact === 'serious' || v.impact === 'critical')
		.flatMap(v => v.nodes.map(n => v.id + ': ' + n.html.slice(0, 120) + ': ' + n.failureSummary)))`)
	for _, f := range found {
		b.t.Errorf("%s: %s", where, f)
	}
}

// TestKeyboard walks with the keyboard alone: to the button, through the
// dialog, and on to the next button; the focus is where it was and is seen.
func TestKeyboard(t *testing.T) {
	s := start(t, "search")
	b := open(t, s)
	b.wait(part("search", "state") + " === 'closed'")
	focused := "(document.activeElement.value || document.activeElement.dataset.part || document.activeElement.id)"
	tabTo := func(want string) {
		t.Helper()
		for range 20 {
			b.do(chromedp.KeyEvent(kb.Tab))
			if eval[string](b, focused) == want {
				if outline := eval[string](b, "getComputedStyle(document.activeElement).outlineStyle"); outline != "solid" {
					t.Errorf("the focus on %s is not seen: outline %s", want, outline)
				}
				return
			}
		}
		t.Fatalf("the keyboard does not reach %s", want)
	}
	expectFocus := func(want string) {
		t.Helper()
		b.wait(fmt.Sprintf("%s === %q", focused, want))
	}
	tabTo("reload")
	tabTo("open")
	b.do(chromedp.KeyEvent(kb.Enter))
	expectFocus("no")
	b.do(chromedp.KeyEvent(kb.Escape))
	expectFocus("open")
	b.do(chromedp.KeyEvent(kb.Enter))
	expectFocus("no")
	tabTo("yes")
	b.do(chromedp.KeyEvent(kb.Enter))
	b.wait(part("search", "state") + " === 'open' && " + part("search", "note") + " === 'forced by an operator'")
	expectFocus("open")
	tabTo("auto")
	b.do(chromedp.KeyEvent(kb.Enter))
	tabTo("yes")
	b.do(chromedp.KeyEvent(kb.Enter))
	b.wait(part("search", "note") + " === null")
	expectFocus("auto")
	if s.state("search").Breaker.Forced {
		t.Error("the circuit is still forced")
	}
}

// TestHundred: a hundred dependencies are shown with the sick one first, at
// little cost, and on a phone.
func TestHundred(t *testing.T) {
	names := make([]string, 100)
	for i := range names {
		names[i] = fmt.Sprintf("dependency-%02d", i)
	}
	s := start(t, names...)
	b := open(t, s)
	t.Logf("all are shown after %v", b.wait("document.querySelectorAll('.card').length === 100 && document.querySelectorAll('canvas').length > 0"))
	s.fail("dependency-77")
	t.Logf("the sick one is first after %v", b.wait("document.querySelector('.card [data-part=name]').textContent === 'dependency-77'"))
	if n := eval[int](b, "document.querySelectorAll('canvas').length"); n > 60 {
		t.Errorf("%d charts are drawn, most of them where nobody sees them", n)
	}
	// Frames keep coming: no work of the page holds one up for long.
	longest := eval[float64](b, `new Promise(done => { let last = performance.now(), worst = 0, end = last + 4000;
		const frame = () => { const now = performance.now(); worst = Math.max(worst, now - last); last = now; now < end ? requestAnimationFrame(frame) : done(worst) };
		requestAnimationFrame(frame) })`)
	t.Logf("the longest time between two frames is %.0f ms", longest)
	if longest > 1000 {
		t.Errorf("the page stands still for %.0f ms", longest)
	}
	b.do(chromedp.EmulateViewport(360, 740, chromedp.EmulateMobile, chromedp.EmulateTouch))
	eval[chromedp.Void](b, "document.querySelectorAll('.card details')[0].open = true")
	if wide := eval[int](b, "document.scrollingElement.scrollWidth"); wide > 360 {
		t.Errorf("on a phone the page is %d wide", wide)
	}
}

// TestOrderIsHeld: no card moves away from under a pointer or the focus.
func TestOrderIsHeld(t *testing.T) {
	s := start(t, "catalog", "search, breaker: {cooldown: 5m}")
	b := open(t, s)
	b.wait(part("search", "state") + " === 'closed'")
	order := "[...document.querySelectorAll('.card [data-part=name]')].map(e => e.textContent).join()"
	eval[chromedp.Void](b, fmt.Sprintf("(%s).querySelector('button').focus()", card("catalog")))
	s.fail("search")
	b.wait(part("search", "state") + " === 'open' && document.getElementById('held').checkVisibility()")
	time.Sleep(1200 * time.Millisecond)
	if got := eval[string](b, order); got != "catalog,search" {
		t.Errorf("with the focus on a card the order became %s", got)
	}
	eval[chromedp.Void](b, "document.activeElement.blur()")
	b.wait(order + " === 'search,catalog' && !document.getElementById('held').checkVisibility()")
	at := strings.Split(eval[string](b, fmt.Sprintf("(r => r.x + 50 + ' ' + (r.y + 20))((%s).getBoundingClientRect())", card("catalog"))), " ")
	var x, y float64
	_, _ = fmt.Sscan(at[0]+" "+at[1], &x, &y)
	b.do(chromedp.MouseEvent("mouseMoved", x, y))
	b.click("search", "closed", "yes")
	eval[chromedp.Void](b, "document.activeElement.blur()")
	b.click("catalog", "open", "yes")
	eval[chromedp.Void](b, "document.activeElement.blur()")
	b.wait(part("catalog", "state") + " === 'open' && document.getElementById('held').checkVisibility()")
	if got := eval[string](b, order); got != "search,catalog" {
		t.Errorf("under the pointer the order became %s", got)
	}
	b.do(chromedp.MouseEvent("mouseMoved", 5, 5))
	b.wait(order + " === 'catalog,search'")
}

// TestStandsStill: nothing on the page moves by itself.
func TestStandsStill(t *testing.T) {
	s := start(t, "search")
	b := open(t, s)
	b.wait(part("search", "state") + " === 'closed'")
	s.fail("search")
	b.wait(part("search", "state") + " === 'open'")
	if n := eval[int](b, "document.getAnimations().length"); n != 0 {
		t.Errorf("%d animations run", n)
	}
}
