package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"sidecar/resilience/breaker"
)

func TestEventsReachEverySubscriber(t *testing.T) {
	tele := New(Options{})
	ctx := t.Context()
	tele.BreakerChanged("a", breaker.Transition{}) // Nobody listens yet.
	listeners := []func(context.Context) (string, []byte, error){tele.Events().Subscribe(ctx), tele.Events().Subscribe(ctx)}

	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	tele.BreakerChanged("a", breaker.Transition{To: breaker.Open, At: at, Reason: "why", OpenUntil: at.Add(time.Second)})
	tele.BreakerChanged("b", breaker.Transition{From: breaker.Open, To: breaker.HalfOpen, At: at})
	tele.ReloadSucceeded(at, Changes{Added: []string{"x"}, Removed: []string{"y", "z"}})
	tele.ReloadFailed(at, errors.New("bad"))
	want := []string{
		`transition {"at":"2026-01-02T02:04:05Z","dependency":"a","from":"closed","to":"open","reason":"why","open_until":"2026-01-02T02:04:06Z"}`,
		`transition {"at":"2026-01-02T02:04:05Z","dependency":"b","from":"open","to":"half_open","reason":"","open_until":null}`,
		`reload {"at":"2026-01-02T02:04:05Z","result":"success","added":["x"],"removed":["y","z"]}`,
		`reload {"at":"2026-01-02T02:04:05Z","result":"failure","error":"bad"}`,
	}
	for i, next := range listeners {
		for _, w := range want {
			name, data, err := next(ctx)
			if got := name + " " + string(data); err != nil || got != w {
				t.Errorf("subscriber %d hears %s (%v), want %s", i, got, err, w)
			}
		}
	}
}

func TestSlowSubscriberLosesTheOldestAndIsTold(t *testing.T) {
	tele := New(Options{})
	next := tele.Events().Subscribe(t.Context())
	const extra = 3
	for i := range eventBuffer + extra {
		tele.BreakerChanged(fmt.Sprint(i), breaker.Transition{})
	}
	name, data, err := next(t.Context())
	if name != "lost" || string(data) != `{"events":3}` || err != nil {
		t.Fatalf("first hears %s %s (%v), want that 3 were lost", name, data, err)
	}
	for i := range eventBuffer {
		_, data, err := next(t.Context())
		var message struct{ Dependency string }
		if err != nil || json.Unmarshal(data, &message) != nil || message.Dependency != fmt.Sprint(i+extra) {
			t.Fatalf("event %d is %s (%v)", i, data, err)
		}
	}
}

func TestWaitingForEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events Events
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		next := events.Subscribe(ctx)

		began := time.Now()
		wait, stop := context.WithTimeout(t.Context(), 15*time.Second)
		_, _, err := next(wait)
		stop()
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 15*time.Second {
			t.Errorf("a quiet wait ended with %v after %v", err, time.Since(began))
		}

		time.AfterFunc(time.Second, func() { events.reload(time.Now(), Changes{}, nil) })
		if name, _, err := next(t.Context()); name != "reload" || err != nil {
			t.Errorf("heard %q, %v", name, err)
		}

		time.AfterFunc(time.Second, func() { cancel(gone) })
		if _, _, err := next(t.Context()); !errors.Is(err, gone) {
			t.Errorf("after its end the subscription answers %v", err)
		}
		synctest.Wait()
		if n := len(events.subscribers); n != 0 {
			t.Errorf("%d subscribers are left", n)
		}
	})
}
