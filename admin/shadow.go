package admin

import (
	"fmt"

	"sidecar/proxy"
)

// shadowStatus is what is shown of proposed settings. The numbers count from
// Since on.
type shadowStatus struct {
	Since       timestamp               `json:"since"`
	State       string                  `json:"state"`
	OpenUntil   *timestamp              `json:"open_until"` // nil unless open
	Reason      string                  `json:"reason"`
	Window      windowStatus            `json:"window"`
	OpenedTotal uint64                  `json:"opened_total"`
	Bulkhead    bulkheadStatus          `json:"bulkhead"`
	WouldReject map[proxy.Reason]uint64 `json:"would_reject"`
	WouldAdmit  map[proxy.Reason]uint64 `json:"would_admit"`
	Agreed      agreedStatus            `json:"agreed"`
}

// agreedStatus counts the calls on which live and proposed settings agree.
type agreedStatus struct {
	Admit  uint64 `json:"admit"`
	Refuse uint64 `json:"refuse"`
}

func newShadowStatus(s *proxy.ShadowSnapshot) *shadowStatus {
	if s == nil {
		return nil
	}
	b := newBreakerStatus(&s.Breaker)
	return &shadowStatus{
		Since:       timestamp(s.Since),
		State:       b.State,
		OpenUntil:   b.OpenUntil,
		Reason:      b.Reason,
		Window:      b.Window,
		OpenedTotal: b.OpenedTotal,
		Bulkhead:    newBulkheadStatus(&s.Bulkhead),
		WouldReject: s.WouldReject,
		WouldAdmit:  s.WouldAdmit,
		Agreed:      agreedStatus{Admit: s.BothAdmit, Refuse: s.BothRefuse},
	}
}

// Line tells, on the page, how the proposal compares with what is live.
func (s *shadowStatus) Line() string {
	word := breakerStatus{State: s.State}
	return fmt.Sprintf("shadow: %s; would reject %d, would admit %d, agrees on %d",
		word.Word(), sum(s.WouldReject), sum(s.WouldAdmit), s.Agreed.Admit+s.Agreed.Refuse)
}

func sum(counts map[proxy.Reason]uint64) (n uint64) {
	for _, c := range counts {
		n += c
	}
	return n
}
