package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// answer is what the admin API says that is shown.
type answer struct {
	Dependencies []dependencyStatus `json:"dependencies"`
	Reload       struct {
		At    time.Time `json:"at"`
		Error string    `json:"error"` // why the last reload failed, empty if it did not
	} `json:"reload"`
}

type dependencyStatus struct {
	Name    string `json:"name"`
	Listen  string `json:"listen"`
	Breaker struct {
		State     string     `json:"state"`
		Mode      string     `json:"mode"`
		Forced    bool       `json:"forced"`
		OpenUntil *time.Time `json:"open_until"`
		Reason    string     `json:"reason"`
		Window    struct {
			Calls    int `json:"calls"`
			Failures int `json:"failures"`
			Slow     int `json:"slow"`
		} `json:"window"`
	} `json:"breaker"`
	Bulkhead struct {
		Limit   int `json:"limit"`
		InUse   int `json:"in_use"`
		Waiting int `json:"waiting"`
	} `json:"bulkhead"`
	Requests struct {
		OK       uint64 `json:"ok"`
		Failed   uint64 `json:"failed"`
		Fallback uint64 `json:"fallback"`
		Rejected uint64 `json:"rejected"`
		Canceled uint64 `json:"canceled"`
	} `json:"requests"`
	Latency struct {
		P50 *float64 `json:"p50_seconds"`
		P99 *float64 `json:"p99_seconds"`
	} `json:"latency"`
}

// readAnswer reads an answer and puts the sickest dependency first; equally
// well ones stay in the configuration's order.
func readAnswer(raw []byte) (answer, error) {
	var a answer
	if err := json.Unmarshal(raw, &a); err != nil {
		return answer{}, err
	}
	slices.SortStableFunc(a.Dependencies, func(x, y dependencyStatus) int {
		return cmp.Or(cmp.Compare(y.rank(), x.rank()), cmp.Compare(y.failing(), x.failing()), cmp.Compare(y.Bulkhead.Waiting, x.Bulkhead.Waiting))
	})
	return a, nil
}

// only leaves one dependency and reports whether there is one of this name.
func (a *answer) only(name string) bool {
	a.Dependencies = slices.DeleteFunc(a.Dependencies, func(d dependencyStatus) bool { return d.Name != name })
	return len(a.Dependencies) > 0
}

// rank orders the states by how sick they are.
func (d *dependencyStatus) rank() int {
	return slices.Index([]string{"half_open", "open"}, d.Breaker.State)
}

// failing is the share of failed or slow calls in the breaker's window.
func (d *dependencyStatus) failing() float64 {
	w := d.Breaker.Window
	return float64(max(w.Failures, w.Slow)) / float64(max(w.Calls, 1))
}

// calls counts all calls.
func (d *dependencyStatus) calls() uint64 {
	r := d.Requests
	return r.OK + r.Failed + r.Fallback + r.Rejected + r.Canceled
}

// state is the breaker's state, with what else there is to know of it.
func (d *dependencyStatus) state(now time.Time) string {
	b := &d.Breaker
	switch {
	case b.Forced:
		return b.State + " (forced)"
	case b.Mode != "enforce":
		return b.State + " (" + b.Mode + ")"
	case b.OpenUntil != nil:
		return fmt.Sprintf("%s (%ds left)", b.State, max(0, int(b.OpenUntil.Sub(now).Seconds()+1)))
	}
	return b.State
}

// style colours a state; one that refuses nothing is never red.
func (d *dependencyStatus) style() style {
	switch {
	case d.Breaker.State == "open" && (d.Breaker.Mode == "enforce" || d.Breaker.Forced):
		return red
	case d.Breaker.State == "closed":
		return green
	}
	return yellow
}

// seconds shows a latency, or that there was none.
func seconds(s *float64) string {
	if s == nil {
		return "-"
	}
	return time.Duration(*s * float64(time.Second)).Round(100 * time.Microsecond).String()
}

// perSecond shows how fast a counter has grown, or that it is not known.
func perSecond(now, before uint64, passed time.Duration) string {
	if now < before || passed <= 0 {
		return "-"
	}
	rate := float64(now-before) / passed.Seconds()
	if rate < 9.95 {
		return strings.TrimSuffix(strconv.FormatFloat(rate, 'f', 1, 64), ".0")
	}
	return strconv.FormatFloat(rate, 'f', 0, 64)
}
