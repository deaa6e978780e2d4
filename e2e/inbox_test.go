package e2e

import (
	"io"
	"net"
	"sync"
	"time"
)

const (
	// inboxSize is how much of what came is kept for a handler that does not
	// read; above it the peer is held back.
	inboxSize = 1 << 20
	// recordSize is how much is kept of a request as it came.
	recordSize = 64 << 10
)

// inbox takes in what comes on a connection, so that its end is noticed while
// nobody reads. It is safe for concurrent use, with one reader at a time.
type inbox struct {
	ended chan struct{} // closed when the connection has been closed, by either side

	mu      sync.Mutex // guards everything below
	changed *sync.Cond
	data    []byte
	record  []byte // what came since the last call of next
	failure error
	at      time.Time // of the failure
	given   bool      // nobody will read any more
}

func newInbox() *inbox {
	in := &inbox{ended: make(chan struct{})}
	in.changed = sync.NewCond(&in.mu)
	return in
}

// fill reads a connection to its end.
func (in *inbox) fill(c net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := c.Read(buffer)
		in.mu.Lock()
		in.data = append(in.data, buffer[:n]...)
		in.record = append(in.record, buffer[:min(n, recordSize-len(in.record))]...)
		if err != nil {
			in.failure, in.at = err, time.Now()
			close(in.ended)
		}
		in.changed.Broadcast()
		for len(in.data) > inboxSize && !in.given {
			in.changed.Wait()
		}
		done := err != nil || in.given
		in.mu.Unlock()
		if done {
			return
		}
	}
}

// Read implements [io.Reader].
func (in *inbox) Read(p []byte) (int, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for len(in.data) == 0 {
		if in.failure != nil || in.given {
			return 0, io.EOF
		}
		in.changed.Wait()
	}
	n := copy(p, in.data)
	in.data = in.data[n:]
	in.changed.Broadcast()
	return n, nil
}

// giveUp ends fill, which need not wait for a reader any more.
func (in *inbox) giveUp() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.given = true
	in.changed.Broadcast()
}

// recorded returns what came since the last call of next, up to recordSize.
func (in *inbox) recorded() string {
	in.mu.Lock()
	defer in.mu.Unlock()
	return string(in.record)
}

// next begins a new record with what has not been read.
func (in *inbox) next() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.record = append([]byte(nil), in.data[:min(len(in.data), recordSize)]...)
}

func (in *inbox) err() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.failure
}

func (in *inbox) endedAt() time.Time {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.at
}
