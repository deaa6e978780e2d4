package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"time"

	"sidecar/bench/load"
	"sidecar/bench/peers"
)

// degradedAnswer returns what the sidecar answers under a workload once its
// upstream fails, the whole HTTP/1.1 response. It is asked once.
func (b *bench) degradedAnswer(w *workload) ([]byte, error) {
	if answer, known := b.answers[w.name]; known {
		return answer, nil
	}
	r, err := b.rigFor(w, peers.Built(b.dir), &peers.Setup{Policy: w.policy}, false)
	if err != nil {
		return nil, fmt.Errorf("the sidecar's answer: %w", err)
	}
	defer r.close()
	if err := r.fail(w); err != nil {
		return nil, fmt.Errorf("the sidecar's answer: %w", err)
	}
	answer, err := dump(&r.target)
	if err == nil {
		b.answers[w.name] = answer
	}
	return answer, err
}

// dump makes one call and returns the answer as it came.
func dump(t *load.Target) ([]byte, error) {
	conn, err := net.DialTimeout("tcp", t.Addr, time.Second)
	if err != nil {
		return nil, err
	}
	defer conn.Close() //nolint:errcheck // it was only read
	if err := conn.SetDeadline(time.Now().Add(outageTimeout)); err != nil {
		return nil, err
	}
	if _, err := conn.Write(t.Request); err != nil {
		return nil, err
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close() //nolint:errcheck // as above
	return httputil.DumpResponse(res, true)
}
