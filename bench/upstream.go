package main

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// health is how an upstream answers.
type health int32

const (
	well    health = iota // 200, after its delay
	failing               // 500 at once
	hanging               // 200, after hangs
)

// hangs is how long a hanging upstream takes. The calls that it holds when it
// is closed are broken off.
const hangs = 8 * time.Second

// upstream is a dependency in the runner's own process, a net/http server that
// counts what reaches it. It is safe for concurrent use.
type upstream struct {
	addr   string
	server *http.Server
	body   []byte
	delay  time.Duration
	gone   chan struct{}

	health atomic.Int32
	conns  atomic.Int64 // connections made to it
	calls  atomic.Int64 // requests made of it
	now    atomic.Int64 // requests that it holds
}

// startUpstream serves answers of a size, each after a delay.
func startUpstream(size int, delay time.Duration) (*upstream, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	u := &upstream{
		addr:  l.Addr().String(),
		body:  bytes.Repeat([]byte("u"), size),
		delay: delay,
		gone:  make(chan struct{}),
	}
	u.server = &http.Server{
		Handler:           u,
		ReadHeaderTimeout: time.Minute,
		ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateNew {
				u.conns.Add(1)
			}
		},
	}
	go func() { _ = u.server.Serve(l) }()
	return u, nil
}

func (u *upstream) close() {
	close(u.gone)
	_ = u.server.Close()
}

func (u *upstream) become(h health) { u.health.Store(int32(h)) }

// ServeHTTP answers as the upstream's health says.
func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.calls.Add(1)
	u.now.Add(1)
	defer u.now.Add(-1)
	if r.ContentLength != 0 {
		_, _ = io.Copy(io.Discard, r.Body)
	}
	delay, status := u.delay, http.StatusOK
	switch health(u.health.Load()) {
	case failing:
		delay, status = 0, http.StatusInternalServerError
	case hanging:
		delay = hangs
	}
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-u.gone:
			return
		case <-r.Context().Done():
			return
		}
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.WriteHeader(status)
	_, _ = w.Write(u.body)
}
