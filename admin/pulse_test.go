package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"sidecar/proxy"
)

// counted counts how often the dependencies are looked at.
type counted struct {
	*fake
	looks []time.Time
}

func (c *counted) Snapshots() []proxy.Snapshot {
	c.looks = append(c.looks, time.Now())
	return c.fake.Snapshots()
}

// TestStatusIsMadeOnceForAll: while anybody listens it is made once a second,
// however many do, and never otherwise.
func TestStatusIsMadeOnceForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counted{fake: newFake()}
		o := options(c.fake)
		o.Supervisor = c
		h := New(o)
		time.Sleep(time.Minute)
		if len(c.looks) != 0 {
			t.Errorf("without listeners %d statuses were made", len(c.looks))
		}
		streams := make([]*httptest.ResponseRecorder, 10)
		for i := range streams {
			ctx, leave := context.WithTimeout(t.Context(), 10500*time.Millisecond)
			defer leave()
			go func() { streams[i] = ask(h, request("GET", "/api/events", "").WithContext(ctx)) }()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(c.looks) != 11 {
			t.Errorf("for ten listeners %d statuses were made, want 11", len(c.looks))
		}
		for _, w := range streams {
			if _, n := statuses(w.Body.String()); n != 11 {
				t.Errorf("a stream has %d statuses, want 11", n)
			}
		}
	})
}

// TestStatusFollowsAnEvent: what happens is in a status at once, and much that
// happens in few.
func TestStatusFollowsAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counted{fake: newFake()}
		o := options(c.fake)
		o.Supervisor = c
		published := make(chan struct{})
		o.Subscribe = func(ctx context.Context) func(context.Context) (string, []byte, error) {
			return func(wait context.Context) (string, []byte, error) {
				select {
				case <-published:
					return "transition", []byte("{}"), nil
				case <-wait.Done():
					return "", nil, context.Cause(wait)
				}
			}
		}
		p := &pulse{make: (&admin{Options: o}).statusEvent, subscribe: o.Subscribe}
		began := time.Now()
		b := p.join()
		time.Sleep(300 * time.Millisecond)
		published <- struct{}{}
		synctest.Wait()
		if _, newer := b.take(); newer == nil || len(c.looks) != 2 || c.looks[1].Sub(began) != 300*time.Millisecond {
			t.Errorf("an event after 300ms gave statuses at %v", c.looks)
		}
		for range 5 { // The pulse takes one in each gap.
			published <- struct{}{}
		}
		time.Sleep(pulseGap)
		synctest.Wait()
		if gap := c.looks[len(c.looks)-1].Sub(c.looks[1]); len(c.looks) != 7 || gap != 5*pulseGap {
			t.Errorf("five more events gave %d statuses in %v, want 5 in %v", len(c.looks)-2, gap, 5*pulseGap)
		}
		p.leave()
	})
}

// TestNothingOldIsShown: a listener gets nothing that was made before it came,
// when nobody listened in between.
func TestNothingOldIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := 0
		p := &pulse{subscribe: options(newFake()).Subscribe, make: func() []byte { made++; return fmt.Append(nil, made) }}
		first := p.join()
		synctest.Wait()
		p.leave()
		time.Sleep(time.Hour)
		second := p.join()
		if status, _ := second.take(); first == second || string(status) == "1" {
			t.Errorf("at first a listener gets %q", status)
		}
		synctest.Wait()
		if status, _ := second.take(); string(status) != "2" {
			t.Errorf("then a listener gets %q, want 2", status)
		}
		p.leave()
	})
}

// TestStatusEvent compares a status with what the API answers.
func TestStatusEvent(t *testing.T) {
	f := newFake()
	f.lastError = configError{faults: []Fault{{"x.yaml", 3, "a.b", "must be above 0, got 0"}}}
	o := options(f)
	data := (&admin{Options: o}).statusEvent()
	var got struct {
		At           time.Time
		Dependencies []json.RawMessage
		Reload       json.RawMessage
	}
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Dependencies) != 2 || string(got.Dependencies[0]) != payments || time.Since(got.At) > time.Minute {
		t.Errorf("status is %s", data)
	}
	want := `{"at":"2026-01-02T02:04:05.678901Z","error":"x.yaml:3: a.b: must be above 0, got 0",` +
		`"faults":[{"file":"x.yaml","line":3,"key":"a.b","message":"must be above 0, got 0"}]}`
	if string(got.Reload) != want {
		t.Errorf("reload is %s, want %s", got.Reload, want)
	}
	f.lastError = errors.New("port taken")
	if r := (&admin{Options: o}).lastReload(); r.Error != "port taken" || r.Faults == nil || len(r.Faults) != 0 {
		t.Errorf("a fault outside the file is %+v", r)
	}
}
