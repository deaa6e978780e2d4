package supervisor

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sidecar/proxy"
	"sidecar/resilience/breaker"
)

// inPlace has a case for each key of a dependency.
var inPlace = map[string]change{
	"name":   {before: "name: a", after: "name: b", ask: names, was: "a", becomes: "b", renamed: true},
	"listen": {before: "name: a", after: "listen: $OTHER", ask: answers, was: "ok refused", becomes: "refused ok"},
	"allow_remote": {before: "name: a", after: "listen: \"0.0.0.0:$PORT\", allow_remote: true", ask: func(p *place) string {
		return p.get("127.0.0.2:" + p.ports[2][strings.LastIndex(p.ports[2], ":")+1:])
	}, was: "refused", becomes: "ok"},
	"upstream": {before: "upstream: \"$UPSTREAM\"", after: "upstream: \"$UPSTREAM/404\"", ask: status("/"), was: "200", becomes: "404", fresh: true},
	"protocol": {before: "protocol: http1", after: "protocol: h2c", ask: body("/protocol"), was: "HTTP/1.1", becomes: "HTTP/2.0", fresh: true},
	"preserve_host": {before: "preserve_host: false", after: "preserve_host: true", ask: func(p *place) string {
		return fmt.Sprint(p.get1("/host").body == p.ports[2])
	}, was: "false", becomes: "true"},

	"timeout":         {before: "timeout: 5s", after: "timeout: 20ms", ask: status("/slow"), was: "200", becomes: "504"},
	"attempt_timeout": {before: "attempt_timeout: 5s", after: "attempt_timeout: 20ms", ask: status("/slow"), was: "200", becomes: "504"},
	"idle_timeout": {before: "idle_timeout: 1s", after: "idle_timeout: 20ms", ask: func(p *place) string {
		return fmt.Sprint("lasts: ", p.get1("/events").took > 800*time.Millisecond)
	}, was: "lasts: true", becomes: "lasts: false"},
	"max_request_bytes": {before: "max_request_bytes: 0", after: "max_request_bytes: 5B", ask: func(p *place) string {
		return fmt.Sprint(p.call(http.MethodPost, "/", "0123456789").status)
	}, was: "200", becomes: "413"},

	"breaker.mode": {before: "breaker: {consecutive_failures: 3, mode: \"off\"}", after: "breaker: {consecutive_failures: 3, mode: enforce}",
		ask: opens("/500", 0), was: "never", becomes: "after 3"},
	"breaker.window": {before: "breaker: {min_calls: 2, failure_ratio: 1, window: 4}", after: "breaker: {min_calls: 2, failure_ratio: 1, window: 2}",
		ask: opens("/500", 4), was: "after 4", becomes: "after 2", emptied: true},
	"breaker.min_calls": {before: "breaker: {failure_ratio: 1, min_calls: 4}", after: "breaker: {failure_ratio: 1, min_calls: 3}",
		ask: opens("/500", 0), was: "after 4", becomes: "after 3"},
	"breaker.failure_ratio": {before: "breaker: {min_calls: 3, failure_ratio: 0.75}", after: "breaker: {min_calls: 3, failure_ratio: 0.51}",
		ask: opens("/500", 2), was: "after 6", becomes: "after 3"},
	"breaker.consecutive_failures": {before: "breaker: {consecutive_failures: 5}", after: "breaker: {consecutive_failures: 3}",
		ask: opens("/500", 0), was: "after 5", becomes: "after 3"},
	"breaker.slow_call.after": {before: "breaker: {min_calls: 3, failure_ratio: 1, slow_call: {ratio: 1, after: 10s}}", after: "breaker: {min_calls: 3, failure_ratio: 1, slow_call: {ratio: 1, after: 200ms}}",
		ask: opens("/slow", 0), was: "never", becomes: "after 3"},
	"breaker.slow_call.ratio": {before: "breaker: {min_calls: 2, failure_ratio: 1, slow_call: {after: 200ms, ratio: 0.75}}", after: "breaker: {min_calls: 2, failure_ratio: 1, slow_call: {after: 200ms, ratio: 0.5}}",
		ask: opens("/slow", 2), was: "after 6", becomes: "after 2"},
	"breaker.cooldown": {before: "breaker: {consecutive_failures: 2, cooldown: 1h}", after: "breaker: {consecutive_failures: 2, cooldown: 2m}",
		ask: func(p *place) string { return p.opened().String() }, was: "1h0m0s", becomes: "2m0s"},
	"breaker.jitter": {before: "breaker: {consecutive_failures: 2, jitter: 0}", after: "breaker: {consecutive_failures: 2, jitter: 0.5}",
		ask: func(p *place) string { return fmt.Sprint("spread: ", p.opened() != time.Hour) }, was: "spread: false", becomes: "spread: true"},
	"breaker.backoff.factor": {before: "breaker: {consecutive_failures: 2, cooldown: 100ms, backoff: {factor: 1}}", after: "breaker: {consecutive_failures: 2, cooldown: 100ms, backoff: {factor: 10}}",
		ask: func(p *place) string { return p.openedAgain().String() }, was: "100ms", becomes: "1s"},
	"breaker.backoff.max": {before: "breaker: {consecutive_failures: 2, cooldown: 100ms, backoff: {factor: 10, max: 1m}}", after: "breaker: {consecutive_failures: 2, cooldown: 100ms, backoff: {factor: 10, max: 300ms}}",
		ask: func(p *place) string { return p.openedAgain().String() }, was: "1s", becomes: "300ms"},
	"breaker.probes": {before: "breaker: {consecutive_failures: 2, cooldown: 20ms, probes: 1}", after: "breaker: {consecutive_failures: 2, cooldown: 20ms, probes: 2}",
		ask: func(p *place) string { p.probed(); return p.s.Snapshots()[0].Breaker.State.String() }, was: "closed", becomes: "half_open"},
	"breaker.ramp": {before: "breaker: {consecutive_failures: 2, cooldown: 20ms, ramp: 0s}", after: "breaker: {consecutive_failures: 2, cooldown: 20ms, ramp: 1h}",
		ask: func(p *place) string { p.probed(); return fmt.Sprint(p.s.Snapshots()[0].Bulkhead.Limit) }, was: "20", becomes: "1"},

	"bulkhead.max_concurrent": {before: "bulkhead: {max_concurrent: 2, max_waiting: 0}", after: "bulkhead: {max_concurrent: 4, max_waiting: 0}",
		ask: crowd(6), was: "2 served, 4 refused", becomes: "4 served, 2 refused"},
	"bulkhead.max_waiting": {before: "bulkhead: {max_concurrent: 2, max_waiting: 1}", after: "bulkhead: {max_concurrent: 2, max_waiting: 3}",
		ask: crowd(6), was: "3 served, 3 refused", becomes: "5 served, 1 refused"},
	"bulkhead.queue_timeout": {before: "bulkhead: {max_concurrent: 1, max_waiting: 5, queue_timeout: 5s}", after: "bulkhead: {max_concurrent: 1, max_waiting: 5, queue_timeout: 20ms}",
		ask: crowd(3), was: "3 served, 0 refused", becomes: "1 served, 2 refused"},

	"shadow.breaker": {before: "shadow: {breaker: {consecutive_failures: 5}}", after: "shadow: {breaker: {consecutive_failures: 3}}",
		ask: func(p *place) string {
			for n := 1; n <= 8; n++ {
				p.get1("/500")
				if p.s.Snapshots()[0].Shadow.Breaker.State == breaker.Open {
					return fmt.Sprint("after ", n)
				}
			}
			return "never"
		}, was: "after 5", becomes: "after 3"},
	"shadow.bulkhead": {before: "shadow: {bulkhead: {max_concurrent: 4, max_waiting: 0}}", after: "shadow: {bulkhead: {max_concurrent: 2, max_waiting: 0}}",
		ask: func(p *place) string {
			served := crowd(6)(p)
			return fmt.Sprintf("%s, %d would not", served, p.s.Snapshots()[0].Shadow.WouldReject[proxy.ReasonQueueFull])
		}, was: "6 served, 0 refused, 2 would not", becomes: "6 served, 0 refused, 4 would not"},

	"failure.statuses": {before: "breaker: {consecutive_failures: 3}", after: "breaker: {consecutive_failures: 3}, failure: {statuses: [\"418\"]}",
		ask: opens("/418", 0), was: "never", becomes: "after 3"},
	"failure.grpc_statuses": {before: "breaker: {consecutive_failures: 3}", after: "breaker: {consecutive_failures: 3}, failure: {grpc_statuses: [NOT_FOUND]}",
		ask: opens("/grpc", 0), was: "never", becomes: "after 3"},

	"retry.max_retries": {before: "retry: {max_retries: 0}", after: "retry: {max_retries: 2}", ask: attempts("/503"), was: "1", becomes: "3"},
	"retry.on":          {before: "retry: {max_retries: 2, \"on\": [\"502\"]}", after: "retry: {max_retries: 2, \"on\": [\"503\"]}", ask: attempts("/503"), was: "1", becomes: "3"},
	// A pause that would end after the deadline is not begun.
	"retry.backoff.base": {before: "timeout: 2s, retry: {max_retries: 5, backoff: {base: 1ms, max: 9h}}", after: "timeout: 2s, retry: {max_retries: 5, backoff: {base: 9h, max: 9h}}",
		ask: attempts("/503"), was: "6", becomes: "1"},
	"retry.backoff.max": {before: "timeout: 2s, retry: {max_retries: 20, backoff: {base: 1ms, max: 1ms}}", after: "timeout: 2s, retry: {max_retries: 20, backoff: {base: 1ms, max: 9h}}",
		ask: func(p *place) string { return fmt.Sprint("all: ", attempts("/503")(p) == "21") }, was: "all: true", becomes: "all: false"},
	"retry.budget.ratio": {before: "retry: {max_retries: 1, budget: {min_per_second: 0, ratio: 0}}", after: "retry: {max_retries: 1, budget: {min_per_second: 0, ratio: 1}}",
		ask: attempts("/503"), was: "1", becomes: "2"},
	"retry.budget.min_per_second": {before: "retry: {max_retries: 1, budget: {min_per_second: 0, ratio: 0}}", after: "retry: {max_retries: 1, budget: {min_per_second: 9, ratio: 0}}",
		ask: attempts("/503"), was: "1", becomes: "2"},
	"retry.max_body_bytes": {before: "retry: {max_retries: 1, max_body_bytes: 1B}", after: "retry: {max_retries: 1, max_body_bytes: 1KiB}",
		ask: attempts("/503"), was: "1", becomes: "2"},

	"fallback[].stale.max_age": {before: "fallback: [{stale: {max_age: 1h}}]", after: "fallback: [{stale: {max_age: 1ns}}]", ask: func(p *place) string {
		p.up.failing.Store(false)
		p.get1("/copy")
		p.up.failing.Store(true)
		defer p.up.failing.Store(false)
		return fmt.Sprint(p.get1("/copy").status)
	}, was: "200", becomes: "500"},
	"fallback[].stale.vary_by": {before: "fallback: [{stale: {}}]", after: "fallback: [{stale: {vary_by: [X-User]}}]", ask: func(p *place) string {
		p.up.failing.Store(false)
		p.get1("/copy", "X-User", "ann")
		p.up.failing.Store(true)
		defer p.up.failing.Store(false)
		return fmt.Sprint(p.get1("/copy", "X-User", "bob").status)
	}, was: "200", becomes: "500"},
	"fallback[].static.status":  {before: "fallback: [{static: {status: 250}}]", after: "fallback: [{static: {status: 251}}]", ask: status("/500"), was: "250", becomes: "251"},
	"fallback[].static.headers": {before: "fallback: [{static: {headers: {X-Is: old}}}]", after: "fallback: [{static: {headers: {X-Is: new}}}]", ask: func(p *place) string { return p.get1("/500").header.Get("X-Is") }, was: "old", becomes: "new"},
	"fallback[].static.body":    {before: "fallback: [{static: {body: old}}]", after: "fallback: [{static: {body: new}}]", ask: body("/500"), was: "old", becomes: "new"},
	"fallback[].static.body_file": {before: "fallback: [{static: {body_file: $OLD}}]", after: "fallback: [{static: {body_file: $NEW}}]",
		ask: body("/500"), was: "old", becomes: "new"},

	"routes[].match.methods": {before: route("methods: [PUT]"), after: route("methods: [GET]"), ask: status("/500"), was: "500", becomes: "299"},
	"routes[].match.path":    {before: route("path: /other"), after: route("path: /500"), ask: status("/500"), was: "500", becomes: "299"},
	"routes[].match.path_prefix": {before: route("path_prefix: /other"), after: route("path_prefix: /5"),
		ask: status("/500"), was: "500", becomes: "299"},

	"connect_timeout":          {before: "upstream: \"$SILENT\", connect_timeout: 900ms", after: "upstream: \"$SILENT\", connect_timeout: 20ms", ask: func(p *place) string { return fmt.Sprint("long: ", p.get1("/").took > 700*time.Millisecond) }, was: "long: true", becomes: "long: false"},
	"tls.ca_file":              {before: "tls: {ca_file: $STRANGER}", after: "tls: {ca_file: $CA}", ask: status("/"), was: "502", becomes: "200", fresh: true},
	"tls.cert_file":            {before: "tls: {ca_file: $CA, cert_file: $ONE, key_file: $ONE}", after: "tls: {ca_file: $CA, cert_file: $TWO, key_file: $TWO}", ask: body("/client"), was: "one", becomes: "two", fresh: true},
	"tls.key_file":             {before: "tls: {ca_file: $CA}", after: "tls: {ca_file: $CA, cert_file: $ONE, key_file: $ONE}", ask: body("/client"), was: "ok", becomes: "one", fresh: true},
	"tls.server_name":          {before: "tls: {ca_file: $CA, server_name: other.test}", after: "tls: {ca_file: $CA, server_name: up.test}", ask: status("/"), was: "502", becomes: "200", fresh: true},
	"tls.min_version":          {before: "tls: {ca_file: $CA, min_version: \"1.2\"}", after: "tls: {ca_file: $CA, min_version: \"1.3\"}", ask: status("/"), was: "200", becomes: "502", fresh: true},
	"tls.insecure_skip_verify": {before: "tls: {insecure_skip_verify: false}", after: "tls: {insecure_skip_verify: true}", ask: status("/"), was: "502", becomes: "200", fresh: true},
}

func route(match string) string {
	return "fallback: [], routes: [{match: {" + match + "}, fallback: [{static: {status: 299}}]}]"
}

func names(p *place) string {
	p.await("its name", func() bool { return len(p.s.Snapshots()) == 1 })
	return p.s.Snapshots()[0].Name
}

func answers(p *place) string { return p.get(p.ports[2]) + " " + p.get(p.ports[3]) }

func status(path string) func(*place) string {
	return func(p *place) string { return fmt.Sprint(p.get1(path).status) }
}

func body(path string) func(*place) string {
	return func(p *place) string { return p.get1(path).body }
}

// opens tells after how many calls, some good ones before them, the circuit is
// open.
func opens(path string, good int) func(*place) string {
	return func(p *place) string {
		for range good {
			p.get1("/")
		}
		for n := 1; n <= 8; n++ {
			var headers []string
			if path == "/grpc" {
				headers = []string{"Content-Type", "application/grpc"}
			}
			p.get1(path, headers...)
			if p.s.Snapshots()[0].Breaker.State.String() == "open" {
				return fmt.Sprint("after ", n)
			}
		}
		return "never"
	}
}

// opened opens the circuit and returns for how long.
func (p *place) opened() time.Duration {
	p.get1("/500")
	p.get1("/500")
	b := p.s.Snapshots()[0].Breaker
	return b.OpenUntil.Sub(b.Since)
}

// openedAgain opens it, lets a probe fail and returns for how long that was.
func (p *place) openedAgain() time.Duration {
	p.opened()
	p.await("the probe's time", func() bool { return p.s.Snapshots()[0].Breaker.State.String() == "half_open" })
	p.get1("/500")
	b := p.s.Snapshots()[0].Breaker
	return b.OpenUntil.Sub(b.Since)
}

// probed opens it and lets a probe succeed.
func (p *place) probed() {
	p.opened()
	p.await("the probe's time", func() bool { return p.s.Snapshots()[0].Breaker.State.String() == "half_open" })
	p.get1("/")
}

// crowd makes calls at once that each take a while, and tells what becomes of
// them.
func crowd(n int) func(*place) string {
	return func(p *place) string {
		var all sync.WaitGroup
		var served, refused atomic.Int64
		for range n {
			all.Go(func() {
				if p.get1("/slow").status == http.StatusOK {
					served.Add(1)
				} else {
					refused.Add(1)
				}
			})
		}
		all.Wait()
		return fmt.Sprintf("%d served, %d refused", served.Load(), refused.Load())
	}
}

// attempts tells how often the upstream was asked for one call that may be
// repeated.
func attempts(path string) func(*place) string {
	return func(p *place) string {
		before := p.up.requests.Load()
		p.call(http.MethodPut, path, "0123456789")
		return fmt.Sprint(p.up.requests.Load() - before)
	}
}
