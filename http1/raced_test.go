//go:build race

package http1

// raced tells that the race detector is on, whose memory grows with every
// goroutine there was.
const raced = true
