// Handwritten is what a team writes when it needs a breaker and has an
// afternoon: httputil.ReverseProxy with gobreaker, a semaphore, timeouts and
// Prometheus, one of each for an upstream.
package main

import (
	"bytes"
	"flag"
	"log"
	"net/http"
	"time"

	"sidecar/bench/peers/route"
)

// settings are those of every route.
type settings struct {
	limit   int64         // calls at once
	wait    time.Duration // longest wait for the semaphore
	timeout time.Duration // of a whole call
	static  []byte        // answer while the circuit is open; nil = 503
}

func main() {
	var routes route.Routes
	var s settings
	flag.Var(&routes, "route", "`LISTEN=UPSTREAM`, host and port each; may be given again")
	flag.Int64Var(&s.limit, "limit", 512, "calls at once")
	flag.DurationVar(&s.wait, "wait", 250*time.Millisecond, "longest wait of a call for its turn")
	flag.DurationVar(&s.timeout, "timeout", 10*time.Second, "longest call")
	static := flag.Int("static", 0, "`bytes` of the answer while the circuit is open; 0 = a 503")
	metrics := flag.String("metrics", "", "host and port of /metrics")
	flag.Parse()
	if *static > 0 {
		s.static = bytes.Repeat([]byte("x"), *static)
	}
	m := newMetrics()
	if *metrics != "" {
		server := &http.Server{Addr: *metrics, Handler: m.handler(), ReadHeaderTimeout: 10 * time.Second}
		go func() { log.Fatal(server.ListenAndServe()) }()
	}
	err := routes.Serve(func(upstream string) http.Handler { return m.measure(upstream, newGuard(upstream, s)) })
	if err != nil {
		log.Fatal(err)
	}
}
