// Plain is a net/http handler that writes the bytes of a degraded answer and
// decides nothing: what such an answer costs at the least in Go.
package main

import (
	"bufio"
	"flag"
	"io"
	"log"
	"net/http"
	"os"
	"time"
)

func main() {
	listen := flag.String("listen", "", "host and port")
	file := flag.String("answer", "", "`file` with the answer to give, a whole HTTP/1.1 response")
	flag.Parse()
	h, err := read(*file)
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Addr: *listen, ReadHeaderTimeout: 10 * time.Second, Handler: h}
	log.Fatal(server.ListenAndServe())
}

// answer is what every request gets.
type answer struct {
	status int
	head   [][2]string
	body   []byte
}

// read takes the answer from a file. Its Date is left to net/http, which
// writes one in any case.
func read(file string) (*answer, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	res, err := http.ReadResponse(bufio.NewReader(f), nil)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close() //nolint:errcheck // as above
	a := &answer{status: res.StatusCode}
	for name, values := range res.Header {
		if name != "Date" {
			a.head = append(a.head, [2]string{name, values[0]})
		}
	}
	a.body, err = io.ReadAll(res.Body)
	return a, err
}

// ServeHTTP writes the answer.
func (a *answer) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	for _, field := range a.head {
		h.Set(field[0], field[1])
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body)
}
