// Bare is the measure for all others: a tuned httputil.ReverseProxy and
// nothing else. It has no limit, no timeout and no breaker.
package main

import (
	"flag"
	"log"
	"net/http"

	"sidecar/bench/peers/route"
)

func main() {
	var routes route.Routes
	flag.Var(&routes, "route", "`LISTEN=UPSTREAM`, host and port each; may be given again")
	flag.Parse()
	err := routes.Serve(func(upstream string) http.Handler { return route.Proxy(upstream, route.Transport()) })
	if err != nil {
		log.Fatal(err)
	}
}
