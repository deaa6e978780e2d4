package proxy

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// said is a Cache-Control of the caching vocabulary, with what it means.
type said struct {
	line              string
	forbidden, public bool
	lifetime          int // seconds
	staleIfError      int // seconds; 0 = not said
	onlyFresh         bool
}

var vocabulary = []said{
	{line: ""},
	{line: "max-age=20", lifetime: 20},
	{line: "public, max-age=20", public: true, lifetime: 20},
	{line: "public", public: true},
	{line: "max-age=5, stale-if-error=10", lifetime: 5, staleIfError: 10},
	{line: "s-maxage=15", public: true, lifetime: 15, onlyFresh: true},
	{line: "max-age=30, must-revalidate", lifetime: 30, onlyFresh: true},
	{line: "max-age=30, proxy-revalidate, public", public: true, lifetime: 30, onlyFresh: true},
	{line: "No-Store", forbidden: true}, {line: "private, max-age=60", forbidden: true},
	{line: "no-cache", forbidden: true}, {line: `private="x"`, forbidden: true},
}

// deed is one step of a random story.
type deed struct {
	what     string // GET, POST, outage, recovery, wait
	target   string
	header   http.Header
	side     bool // goes on while the story does
	status   int
	says     int // index into vocabulary
	response http.Header
	delay    time.Duration // to the headers, or the length of a wait
	body     string        // "" = short; "broken", "large"

	asked, answered time.Time // at the upstream; answered is zero where it failed
}

// drawHeader sets a header to one of the values; "" = not at all.
func drawHeader(t *rapid.T, h http.Header, name string, values ...string) {
	if v := rapid.SampledFrom(values).Draw(t, name); v != "" {
		h.Set(name, v)
	}
}

// drawDeed makes up one step.
func drawDeed(t *rapid.T) *deed {
	d := &deed{header: http.Header{}, response: http.Header{}, status: 200}
	d.what = rapid.SampledFrom([]string{"GET", "GET", "GET", "GET", "GET", "POST", "outage", "outage", "recovery", "wait", "wait"}).Draw(t, "what")
	d.target = rapid.SampledFrom([]string{"/a", "/b", "/a?q=1"}).Draw(t, "target")
	d.delay = time.Duration(rapid.IntRange(0, 12).Draw(t, "delay")) * time.Second
	switch d.what {
	case "wait":
		d.delay *= 3
	case "POST":
		d.status = rapid.SampledFrom([]int{200, 204, 303, 404, 500}).Draw(t, "status")
		d.delay /= 8
	case "GET":
		d.side = rapid.Bool().Draw(t, "side")
		d.delay /= 8
		d.status = rapid.SampledFrom([]int{200, 200, 200, 200, 203, 206, 404, 403}).Draw(t, "status")
		d.says = rapid.IntRange(0, len(vocabulary)-1).Draw(t, "says")
		d.body = rapid.SampledFrom([]string{"", "", "", "", "broken", "large"}).Draw(t, "body")
		drawHeader(t, d.header, "Authorization", "", "ann", "bob")
		drawHeader(t, d.header, "Accept-Language", "", "de", "fr")
		drawHeader(t, d.header, "Accept-Encoding", "", "gzip")
		drawHeader(t, d.header, "Cache-Control", "", "", "", "no-cache", "max-age=5")
		drawHeader(t, d.response, "Vary", "", "", "Accept-Language", "accept-encoding, Accept-Language", "Authorization", "*")
		drawHeader(t, d.response, "Set-Cookie", "", "", "", "", "a=b")
		drawHeader(t, d.response, "Age", "", "", "3")
		drawHeader(t, d.response, "Content-Language", "", "", "de")
		if d.header.Get("Accept-Encoding") != "" {
			drawHeader(t, d.response, "Content-Encoding", "", "gzip")
		}
		d.response.Set("Cache-Control", vocabulary[d.says].line)
	}
	return d
}

// story plays deeds on a dependency and checks every copy that is served.
type story struct {
	*rig
	deeds  []*deed
	varyBy []string
	outage bool
	wrongs []string
	served *atomic.Int64
}

const storyMaxAge = 40 // seconds

// No answer ever holds bytes made for another key or user, an incomplete body,
// or a copy older than its bound, whatever two users, a writer and the
// dependency do.
func TestCopiesAreAlwaysRight(t *testing.T) {
	var served atomic.Int64
	rapid.Check(t, func(rt *rapid.T) {
		s := &story{served: &served}
		for range rapid.IntRange(1, 40).Draw(rt, "deeds") {
			s.deeds = append(s.deeds, drawDeed(rt))
		}
		if rapid.Bool().Draw(rt, "vary_by") {
			s.varyBy = []string{"Authorization"}
		}
		settings := func(settings *Settings) {
			settings.Fallback = []Fallback{{Stale: &Stale{MaxAge: storyMaxAge * time.Second, VaryBy: s.varyBy}}}
			settings.Bulkhead.MaxConcurrent = 100
		}
		bubble(t, both(settings, timeouts(0, 0)), func(r *rig) {
			s.rig = r
			s.play()
		})
		for _, wrong := range s.wrongs {
			rt.Error(wrong)
		}
	})
	if served.Load() == 0 {
		t.Error("no copy was ever served")
	}
}

// play does the deeds, one after the other but for those on the side.
func (s *story) play() {
	s.up.choose = func(_ int, seen *request) reply { return s.reply(seen.header.Get("X-Deed")) }
	asides := map[*answer]*deed{}
	for i, d := range s.deeds {
		d.header.Set("X-Deed", itoa(i))
		switch d.what {
		case "outage":
			s.outage = true
		case "recovery":
			s.outage = false
		case "wait":
			time.Sleep(d.delay)
		default:
			a := s.start(caller{method: d.what, target: d.target, header: d.header})
			if d.side {
				asides[a] = d
				synctest.Wait()
				continue
			}
			s.check(d, a.wait())
		}
	}
	for a, d := range asides {
		s.check(d, a.wait())
	}
}

// body is what a deed's answer says, with a mark at its end.
func (s *story) body(d *deed) string {
	size := 10
	if d.body == "large" {
		size = 70 << 10
	}
	return fmt.Sprintf("deed %s %s end", d.header.Get("X-Deed"), strings.Repeat("x", size))
}

// reply is the upstream's to the i-th deed.
func (s *story) reply(i string) reply {
	var n int
	_, _ = fmt.Sscan(i, &n)
	d := s.deeds[n]
	d.asked = time.Now()
	if s.outage {
		return []reply{{status: 500}, {fails: errReset}, {noConn: true, fails: errRefused}}[n%3]
	}
	d.answered = d.asked.Add(d.delay)
	r := reply{status: d.status, header: maps.Clone(d.response), after: d.delay, body: text(s.body(d))}
	if d.status == 204 {
		r.body = nil
	}
	if d.body == "broken" {
		r.length, r.body = 1000, []step{{text: "deed " + i}, {err: errReset}}
	}
	return r
}

// check looks at one answer.
func (s *story) check(d *deed, a *answer) {
	if a.header.Get("Sidecar-Degraded") == "" {
		return
	}
	s.served.Add(1)
	now := a.began.Add(a.took)
	id, _, _ := strings.Cut(strings.TrimPrefix(a.body, "deed "), " ")
	var n int
	if _, err := fmt.Sscan(id, &n); err != nil {
		s.wrong("an unknown body", d, nil, a)
		return
	}
	made := s.deeds[n]
	for what, wrong := range s.faults(d, made, now, a) {
		if wrong {
			s.wrong(what, d, made, a)
		}
	}
	for _, w := range s.deeds {
		changes := w.what == "POST" && w.status < 400 || w.what == "GET" && w.status == 404
		if changes && w.target == made.target && !w.answered.IsZero() && w.answered.Before(now) && made.asked.Before(w.answered) {
			s.wrong("older than a "+w.what, d, made, a)
		}
	}
}

// faults lists what would be wrong with showing the answer to one deed to
// another.
func (s *story) faults(d, made *deed, now time.Time, a *answer) map[string]bool {
	says := vocabulary[made.says]
	age := int(now.Sub(made.asked) / time.Second)
	if made.response.Get("Age") != "" {
		age += 3
	}
	past := age - says.lifetime
	user, owner := d.header.Get("Authorization"), made.header.Get("Authorization")
	differs := func(name string) bool {
		return strings.Contains(strings.ToLower(made.response.Get("Vary")), strings.ToLower(name)) && d.header.Get(name) != made.header.Get(name)
	}
	language := d.header.Get("Accept-Language")
	return map[string]bool{
		"another target":     made.target != d.target,
		"not complete":       a.body != s.body(made) || made.body != "",
		"not storable":       says.forbidden || made.response.Get("Vary") == "*" || made.response.Get("Set-Cookie") != "" || made.status != 200 && made.status != 203,
		"another user's":     user != owner && (!says.public || s.varyBy != nil),
		"a user's":           owner != "" && s.varyBy == nil && !says.public,
		"another variant":    differs("Accept-Language") || differs("Accept-Encoding") || differs("Authorization"),
		"not decodable":      made.response.Get("Content-Encoding") == "gzip" && d.header.Get("Accept-Encoding") == "",
		"another language":   made.response.Get("Content-Language") == "de" && language == "fr" && made.header.Get("Accept-Language") != "fr",
		"older than max_age": age > storyMaxAge,
		"stale":              says.onlyFresh && past >= 0,
		"staler than said":   says.staleIfError > 0 && past > says.staleIfError,
		"against the wish":   d.header.Get("Cache-Control") == "no-cache" || d.header.Get("Cache-Control") == "max-age=5" && age > 5,
		"of another age":     a.header.Get("Age") != itoa(age),
	}
}

func (s *story) wrong(what string, d, made *deed, a *answer) {
	s.wrongs = append(s.wrongs, fmt.Sprintf("%s: %s %s %v got %d %.20q of %+v", what, d.what, d.target, d.header, a.status, a.body, made))
}
