package admin

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"
)

const (
	// pulseInterval is the time from one status to the next while nothing
	// happens. It is also what keeps a silent stream alive.
	pulseInterval = time.Second
	// pulseGap is the shortest time between two statuses, however much happens.
	pulseGap = 50 * time.Millisecond
)

// pulse makes the status of all dependencies, for every stream at once, while
// there are streams. It is safe for concurrent use.
type pulse struct {
	make      func() []byte
	subscribe Subscribe

	mu        sync.Mutex // guards everything below
	listeners int
	beat      *beat // nil without listeners
}

// beat is one uninterrupted time of listening. A new one begins with nothing,
// so that nobody is ever shown what an earlier one has left behind.
type beat struct {
	stop context.CancelFunc

	mu     sync.Mutex // guards everything below
	latest []byte     // nil until the first is made
	next   chan struct{}
}

// join begins to listen. Each join is followed by one leave.
func (p *pulse) join() *beat {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listeners++
	if p.beat == nil {
		ctx, cancel := context.WithCancel(context.Background())
		p.beat = &beat{stop: cancel, next: make(chan struct{})}
		go p.run(ctx, p.beat)
	}
	return p.beat
}

// leave ends what join began.
func (p *pulse) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listeners--
	if p.listeners == 0 {
		p.beat.stop()
		p.beat = nil
	}
}

// run makes a status once a second, and at once when something happens.
func (p *pulse) run(ctx context.Context, b *beat) {
	happened := p.subscribe(ctx)
	for {
		b.publish(p.make())
		wait, done := context.WithTimeout(ctx, pulseInterval)
		gap := time.After(pulseGap)
		_, _, err := happened(wait)
		done()
		if ctx.Err() != nil || err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return
		}
		select {
		case <-gap:
		case <-ctx.Done():
			return
		}
	}
}

// publish replaces the latest status.
func (b *beat) publish(status []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.latest = status
	close(b.next)
	b.next = make(chan struct{})
}

// take returns the latest status, nil before the first, and a channel that is
// closed when there is a newer one.
func (b *beat) take() (status []byte, newer <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.latest, b.next
}

// statusEvent returns the data of a status event.
func (a *admin) statusEvent() []byte {
	data, _ := json.Marshal(struct { // What the API shows can be marshalled.
		At           timestamp    `json:"at"`
		Dependencies []status     `json:"dependencies"`
		Reload       reloadStatus `json:"reload"`
	}{timestamp(time.Now()), a.statuses(), a.lastReload()})
	return data
}
