package telemetry

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"sidecar/resilience/breaker"
)

// eventBuffer is how many events a subscriber may fall behind before it loses
// the oldest ones.
const eventBuffer = 64

// Events hands transitions, drills and reloads out to whoever listens. An event
// is a name and a JSON object:
//
//	transition  {"at":…,"dependency":…,"from":…,"to":…,"reason":…,"open_until":… or null}
//	drill       {"at":…,"dependency":…,"ended":… or null,"fault":…,"share":…,"until":…,"injected":…}
//	reload      {"at":…,"result":"success","added":[…],"removed":[…],"changed":[…],"settings":[…]},
//	            empty lists left out, or {"at":…,"result":"failure","error":…}
//	lost        {"events":n}: the subscriber was too slow and lost n events here
//
// Publishing never waits for a subscriber. The zero value is ready for use. It
// is safe for concurrent use.
type Events struct {
	mu          sync.Mutex // guards everything below and every subscriber's fields
	subscribers map[*subscriber]struct{}
}

// subscriber is one listener.
type subscriber struct {
	pending []event // oldest first, at most eventBuffer
	lost    int     // dropped before the first of pending
	wake    chan struct{}
}

// event is one message.
type event struct {
	name string
	data []byte
}

// Subscribe begins to listen, until ctx ends. The returned function waits for
// the next event; its error is the cause of its own or of Subscribe's context,
// whichever ended. It must not be called by two goroutines at once.
func (e *Events) Subscribe(ctx context.Context) func(context.Context) (name string, data []byte, err error) {
	s := &subscriber{wake: make(chan struct{}, 1)}
	e.mu.Lock()
	if e.subscribers == nil {
		e.subscribers = map[*subscriber]struct{}{}
	}
	e.subscribers[s] = struct{}{}
	e.mu.Unlock()
	context.AfterFunc(ctx, func() {
		e.mu.Lock()
		delete(e.subscribers, s)
		e.mu.Unlock()
	})
	return func(wait context.Context) (string, []byte, error) {
		for {
			if next, ok := e.take(s); ok {
				return next.name, next.data, nil
			}
			select {
			case <-s.wake:
			case <-wait.Done():
				return "", nil, context.Cause(wait)
			case <-ctx.Done():
				return "", nil, context.Cause(ctx)
			}
		}
	}
}

// take removes a subscriber's next event.
func (e *Events) take(s *subscriber) (event, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.lost > 0 {
		data, _ := json.Marshal(map[string]int{"events": s.lost}) // A map of numbers can be marshalled.
		s.lost = 0
		return event{"lost", data}, true
	}
	if len(s.pending) == 0 {
		return event{}, false
	}
	next := s.pending[0]
	s.pending = s.pending[1:]
	return next, true
}

// publish hands an event to every subscriber. The value must be one that JSON
// can hold.
func (e *Events) publish(name string, value any) {
	data, err := json.Marshal(value)
	if err != nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for s := range e.subscribers {
		if len(s.pending) == eventBuffer {
			s.pending = s.pending[1:]
			s.lost++
		}
		s.pending = append(s.pending, event{name, data})
		select {
		case s.wake <- struct{}{}:
		default: // It is awake already.
		}
	}
}

// transition publishes a change of a circuit's state.
func (e *Events) transition(dependency string, t *breaker.Transition) {
	var until *time.Time
	if !t.OpenUntil.IsZero() {
		utc := t.OpenUntil.UTC()
		until = &utc
	}
	e.publish("transition", struct {
		At         time.Time  `json:"at"`
		Dependency string     `json:"dependency"`
		From       string     `json:"from"`
		To         string     `json:"to"`
		Reason     string     `json:"reason"`
		OpenUntil  *time.Time `json:"open_until"`
	}{t.At.UTC(), dependency, t.From.String(), t.To.String(), t.Reason, until})
}

// reload publishes a reload and what it changed; err says why it failed, nil if
// it did not.
func (e *Events) reload(at time.Time, c Changes, err error) {
	message := struct {
		At       time.Time `json:"at"`
		Result   string    `json:"result"`
		Error    string    `json:"error,omitempty"`
		Added    []string  `json:"added,omitempty"`
		Removed  []string  `json:"removed,omitempty"`
		Changed  []string  `json:"changed,omitempty"`
		Settings []string  `json:"settings,omitempty"`
	}{At: at.UTC(), Result: "success", Added: c.Added, Removed: c.Removed, Changed: c.Changed, Settings: c.Settings}
	if err != nil {
		message.Result, message.Error = "failure", err.Error()
	}
	e.publish("reload", message)
}
