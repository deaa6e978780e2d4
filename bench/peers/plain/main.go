// Plain is a net/http handler that writes the bytes of a degraded answer and
// decides nothing: what such an answer costs at the least in Go.
package main

import (
	"bytes"
	"flag"
	"log"
	"net/http"
	"time"
)

func main() {
	listen := flag.String("listen", "", "host and port")
	size := flag.Int("size", 1024, "bytes of the body")
	stale := flag.Bool("stale", false, "write the head of a stale answer instead of a static one's")
	flag.Parse()
	head := map[string]string{
		"Content-Type":     "application/octet-stream",
		"Proxy-Status":     `sidecar; error=destination_unavailable; details="open"`,
		"Sidecar-Degraded": "static; reason=open",
	}
	if *stale {
		head["Age"] = "4"
		head["Cache-Status"] = "sidecar; hit; ttl=-3; detail=open"
		head["Sidecar-Degraded"] = "stale; reason=open; age=4"
	}
	body := bytes.Repeat([]byte("x"), *size)
	server := &http.Server{
		Addr:              *listen,
		ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			h := w.Header()
			for name, value := range head {
				h.Set(name, value)
			}
			_, _ = w.Write(body)
		}),
	}
	log.Fatal(server.ListenAndServe())
}
