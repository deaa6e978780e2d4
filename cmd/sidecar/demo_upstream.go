package main

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// demoUpstream is a dependency that is sick on cue:
//
//	POST /sick?latency=8s     answers this late
//	POST /sick?status=503     answers with this status
//	POST /well                is well again
//
// Everything else is answered with a line of JSON.
type demoUpstream struct {
	name  string
	usual time.Duration // what it takes when well

	mu      sync.Mutex // guards everything below
	latency time.Duration
	status  int
	now     int
	peak    int
}

func newDemoUpstream(name string, usual time.Duration) *demoUpstream {
	u := &demoUpstream{name: name, usual: usual}
	u.cure()
	return u
}

// ServeHTTP answers like a service would, or plays sick.
func (u *demoUpstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/sick" && r.Method == http.MethodPost:
		if err := u.infect(r.FormValue("latency"), r.FormValue("status")); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		fmt.Fprintf(w, "%s is sick now\n", u.name)
	case r.URL.Path == "/well" && r.Method == http.MethodPost:
		u.cure()
		fmt.Fprintf(w, "%s is well again\n", u.name)
	default:
		u.work(w, r)
	}
}

// infect sets what an upstream does wrong from now on.
func (u *demoUpstream) infect(latency, status string) error {
	late, code := u.usual, http.StatusOK
	var err error
	if latency != "" {
		if late, err = time.ParseDuration(latency); err != nil || late < 0 {
			return fmt.Errorf("latency must be a duration such as 8s, got %q", latency)
		}
	}
	if status != "" {
		if code, err = strconv.Atoi(status); err != nil || code < 200 || code > 599 {
			return fmt.Errorf("status must be a number from 200 to 599, got %q", status)
		}
	}
	if latency == "" && status == "" {
		return fmt.Errorf("say how: /sick?latency=8s or /sick?status=503")
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.latency, u.status = late, code
	return nil
}

func (u *demoUpstream) cure() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.latency, u.status = u.usual, http.StatusOK
}

// work takes as long as the upstream takes at this moment.
func (u *demoUpstream) work(w http.ResponseWriter, r *http.Request) {
	u.mu.Lock()
	latency, status := u.latency, u.status
	u.now++
	u.peak = max(u.peak, u.now)
	u.mu.Unlock()
	defer func() {
		u.mu.Lock()
		u.now--
		u.mu.Unlock()
	}()
	select {
	case <-time.After(latency):
	case <-r.Context().Done():
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "max-age=1")
	w.WriteHeader(status)
	fmt.Fprintf(w, "{\"from\":%q,\"at\":%q}\n", u.name, time.Now().Format(time.TimeOnly))
}

// peakConcurrency returns the most calls that were here at once since it was
// last asked.
func (u *demoUpstream) peakConcurrency() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	peak := u.peak
	u.peak = u.now
	return peak
}
