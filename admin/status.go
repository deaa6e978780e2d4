package admin

import (
	"fmt"
	"net/url"
	"time"

	"sidecar/proxy"
	"sidecar/resilience/breaker"
	"sidecar/resilience/bulkhead"
	"sidecar/stale"
)

// status is what is shown of one dependency, in the API as on the page.
type status struct {
	Name      string         `json:"name"`
	Listen    string         `json:"listen"`
	Upstream  string         `json:"upstream"`
	Breaker   breakerStatus  `json:"breaker"`
	Bulkhead  bulkheadStatus `json:"bulkhead"`
	Requests  requestStatus  `json:"requests"`
	Latency   latencyStatus  `json:"latency"`
	Fallbacks fallbackStatus `json:"fallbacks"`
	Cache     cacheStatus    `json:"cache"`
	Shadow    *shadowStatus  `json:"shadow,omitempty"` // nil without proposed settings
	Drill     *drillStatus   `json:"drill,omitempty"`  // nil while none runs
}

type breakerStatus struct {
	State            string       `json:"state"`
	Mode             string       `json:"mode"`
	Forced           bool         `json:"forced"`
	Since            timestamp    `json:"since"`
	OpenUntil        *timestamp   `json:"open_until"` // nil unless open by the rules
	Reason           string       `json:"reason"`
	Window           windowStatus `json:"window"`
	OpenedTotal      uint64       `json:"opened_total"`
	OpenSecondsTotal float64      `json:"open_seconds_total"`
}

type windowStatus struct {
	Calls    int `json:"calls"`
	Failures int `json:"failures"`
	Slow     int `json:"slow"`
}

type bulkheadStatus struct {
	Limit             int     `json:"limit"`
	MaxConcurrent     int     `json:"max_concurrent"`
	InUse             int     `json:"in_use"`
	Waiting           int     `json:"waiting"`
	MaxWaiting        int     `json:"max_waiting"`
	OldestWaitSeconds float64 `json:"oldest_wait_seconds"`
}

type requestStatus struct {
	OK       uint64 `json:"ok"`
	Failed   uint64 `json:"failed"`
	Fallback uint64 `json:"fallback"`
	Rejected uint64 `json:"rejected"`
	Canceled uint64 `json:"canceled"`
}

// latencyStatus holds nil where no call ended lately.
type latencyStatus struct {
	P50 *float64 `json:"p50_seconds"`
	P99 *float64 `json:"p99_seconds"`
}

// cacheStatus is the state of a dependency's stale copies.
type cacheStatus struct {
	Entries       int      `json:"entries"`
	Bytes         int64    `json:"bytes"`
	ShareBytes    int64    `json:"share_bytes"`    // that no other dependency can take
	OldestSeconds *float64 `json:"oldest_seconds"` // age of the oldest copy; nil without any
}

// fallbackStatus is what was answered in the dependency's place.
type fallbackStatus struct {
	Stale               uint64   `json:"stale"`
	Static              uint64   `json:"static"`
	LastStaleAgeSeconds *float64 `json:"last_stale_age_seconds"` // of the copy served last; nil before any
}

func (a *admin) fallbacks(name string) fallbackStatus {
	served, age, ok := a.Statistics.Fallbacks(name)
	f := fallbackStatus{Stale: served[proxy.SourceStale], Static: served[proxy.SourceStatic]}
	if ok {
		f.LastStaleAgeSeconds = new(age.Seconds())
	}
	return f
}

func newCacheStatus(s *stale.ShelfSnapshot) cacheStatus {
	c := cacheStatus{Entries: s.Entries, Bytes: s.Bytes, ShareBytes: s.Share}
	if s.Entries > 0 {
		c.OldestSeconds = new(s.Oldest.Seconds())
	}
	return c
}

// timestamp is a time that JSON shows in UTC with microseconds.
type timestamp time.Time

const timestampLayout = "2006-01-02T15:04:05.000000Z07:00"

// MarshalJSON implements [encoding/json.Marshaler].
func (t timestamp) MarshalJSON() ([]byte, error) {
	return time.Time(t).UTC().AppendFormat(nil, `"`+timestampLayout+`"`), nil
}

// statuses returns all dependencies in the configuration's order, never nil.
func (a *admin) statuses() []status {
	snapshots := a.Supervisor.Snapshots()
	all := make([]status, 0, len(snapshots))
	for i := range snapshots {
		all = append(all, a.status(&snapshots[i]))
	}
	return all
}

// find returns one dependency.
func (a *admin) find(name string) (status, bool) {
	for _, s := range a.Supervisor.Snapshots() {
		if s.Name == name {
			return a.status(&s), true
		}
	}
	return status{}, false
}

// status joins what is known of a dependency.
func (a *admin) status(s *proxy.Snapshot) status {
	counts := a.Statistics.Counts(s.Name)
	return status{
		Name:     s.Name,
		Listen:   a.Supervisor.Listen(s.Name),
		Upstream: s.Upstream,
		Breaker:  newBreakerStatus(&s.Breaker),
		Bulkhead: newBulkheadStatus(&s.Bulkhead),
		Requests: requestStatus{
			OK:       counts[proxy.OutcomeOK],
			Failed:   counts[proxy.OutcomeFailed],
			Fallback: counts[proxy.OutcomeFallback],
			Rejected: counts[proxy.OutcomeRejected],
			Canceled: counts[proxy.OutcomeCanceled],
		},
		Latency:   a.latency(s.Name),
		Fallbacks: a.fallbacks(s.Name),
		Cache:     newCacheStatus(&s.Copies),
		Shadow:    newShadowStatus(s.Shadow),
		Drill:     newDrillStatus(s.Drill),
	}
}

func newBreakerStatus(s *breaker.Snapshot) breakerStatus {
	b := breakerStatus{
		State:            s.State.String(),
		Mode:             s.Mode.String(),
		Forced:           s.Forced != breaker.Auto,
		Since:            timestamp(s.Since),
		Reason:           s.Reason,
		Window:           windowStatus{Calls: s.Calls, Failures: s.Failures, Slow: s.Slow},
		OpenedTotal:      s.OpenedTotal,
		OpenSecondsTotal: s.OpenTime.Seconds(),
	}
	if !s.OpenUntil.IsZero() {
		until := timestamp(s.OpenUntil)
		b.OpenUntil = &until
	}
	return b
}

func newBulkheadStatus(s *bulkhead.Snapshot) bulkheadStatus {
	return bulkheadStatus{
		Limit:             s.Limit,
		MaxConcurrent:     s.MaxConcurrent,
		InUse:             s.InUse,
		Waiting:           s.Waiting,
		MaxWaiting:        s.MaxWaiting,
		OldestWaitSeconds: s.OldestWait.Seconds(),
	}
}

func (a *admin) latency(name string) latencyStatus {
	p50, p99, ok := a.Statistics.Latency(name)
	if !ok {
		return latencyStatus{}
	}
	return latencyStatus{P50: new(p50.Seconds()), P99: new(p99.Seconds())}
}

// What follows is for the page: the same values in words.

// Path returns the dependency's address in the API.
func (s *status) Path() string { return "/api/dependencies/" + url.PathEscape(s.Name) }

// Word returns the state as people write it.
func (b *breakerStatus) Word() string {
	if b.State == breaker.HalfOpen.String() {
		return "half-open"
	}
	return b.State
}

// Note says why the state may mean something else than it seems, or nothing.
func (b *breakerStatus) Note() string {
	switch {
	case b.Forced:
		return "forced"
	case b.Mode == breaker.Observe.String():
		return "observing: nothing is refused"
	case b.Mode == breaker.Off.String():
		return "off"
	}
	return ""
}

// Left returns how long a cooldown still lasts, in whole seconds rounded up;
// empty if there is none.
func (b *breakerStatus) Left(now time.Time) string {
	if b.OpenUntil == nil {
		return ""
	}
	left := time.Time(*b.OpenUntil).Sub(now)
	return fmt.Sprintf("%d s", max(int64((left+time.Second-1)/time.Second), 0))
}

// Median returns the median as people write it; empty if there is none.
func (l *latencyStatus) Median() string { return seconds(l.P50) }

// Slowest returns the 99th percentile as people write it; empty if there is
// none.
func (l *latencyStatus) Slowest() string { return seconds(l.P99) }

// seconds writes a duration in ms below a second, else in s, with three digits.
func seconds(s *float64) string {
	switch {
	case s == nil:
		return ""
	case *s < 1:
		return fmt.Sprintf("%.3g ms", *s*1000)
	case *s < 1000:
		return fmt.Sprintf("%.3g s", *s)
	}
	return fmt.Sprintf("%.0f s", *s)
}
