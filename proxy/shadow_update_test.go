package proxy

import (
	"testing"
	"testing/synctest"
	"time"

	"sidecar/resilience/breaker"
)

// A reload keeps a shadow whose proposal and upstream stay, and begins afresh
// otherwise.
func TestShadowUpdates(t *testing.T) {
	bubble(t, proposes(shadowTrips(1)), func(r *rig) {
		r.up.will(reply{status: 500})
		r.get("/")
		r.wantShadow(breaker.Open)
		since := r.d.Snapshot().Shadow.Since
		time.Sleep(ms(10))
		r.update(func(s *Settings) {
			same := *s.Shadow
			s.Timeout, s.Shadow, s.Bulkhead.MaxWaiting = time.Minute, &same, 3
		})
		r.wantShadow(breaker.Open)
		r.wantWould(would{BothAdmit: 1})
		if got := r.d.Snapshot().Shadow.Since; !got.Equal(since) {
			r.Errorf("begun again at %v", got)
		}
		for _, change := range []func(*Settings){proposes(shadowTrips(2)), moved, proposes(shadowTrips(1))} {
			r.update(change)
			r.wantShadow(breaker.Closed)
			r.wantWould(would{})
			if got := r.d.Snapshot().Shadow.Since; !got.Equal(time.Now()) {
				r.Errorf("counts since %v", got)
			}
			r.get("/")
			r.wantWould(would{BothAdmit: 1})
			time.Sleep(ms(10))
		}
		r.update(func(s *Settings) { s.Shadow = nil })
		if s := r.d.Snapshot().Shadow; s != nil {
			r.Errorf("a shadow without a proposal: %+v", s)
		}
	})
}

// A call ends under the shadow that it began with: a new proposal is not
// blamed for it, and one that has left says nothing any more.
func TestShadowUpdatesUnderCalls(t *testing.T) {
	bubble(t, proposes(shadowTrips(1)), func(r *rig) {
		r.up.will(reply{after: ms(100), status: 500})
		r.start(caller{})
		synctest.Wait()
		r.update(moved)
		r.made[0].wait()
		r.wantShadow(breaker.Closed)
		r.wantWould(would{})
		if len(r.shadows) != 0 {
			r.Errorf("heard of %v", r.shadows)
		}
	})
}
