package config

import (
	"crypto/sha256"
	"net/url"
	"reflect"
	"time"
)

// The struct tags are the one description of the file's format. "yaml" is the
// key, "doc" its meaning and unit, "rule" what its value must satisfy (see
// ruleOf). The decoder, Effective and ProcessKeys all read them; the defaults
// are in defaults.go.

// Config is a whole configuration file, every value resolved.
type Config struct {
	Admin        Admin        `yaml:"admin" doc:"the local status page and controls"`
	Metrics      Metrics      `yaml:"metrics" doc:"the read-only listener for scrapes and probes"`
	Log          Log          `yaml:"log" doc:"what is logged and how"`
	Shutdown     Shutdown     `yaml:"shutdown" doc:"how the process ends"`
	Limits       Limits       `yaml:"limits" rule:"omitempty" doc:"bounds shared by all dependencies"`
	Cache        Cache        `yaml:"cache" doc:"what all stale fallbacks share"`
	Dependencies []Dependency `yaml:"dependencies" rule:"later" doc:"the downstream services, each with a listener of its own"`
}

// Equal reports whether both configurations mean the same.
func (c Config) Equal(o Config) bool { return reflect.DeepEqual(c, o) }

// Admin is the local status page, state and controls.
type Admin struct {
	Listen string `yaml:"listen" rule:"form=loopback" doc:"host:port of the status page, state and controls; always loopback"`
	Pprof  bool   `yaml:"pprof" doc:"serve Go's profiles under /debug/pprof/ on the admin listener"`
	Drills bool   `yaml:"drills" doc:"allow fire drills: faults that an operator injects through the admin listener; false also ends those that run"`
}

// Metrics is the read-only listener.
type Metrics struct {
	Listen string `yaml:"listen" rule:"form=address" doc:"host:port of /metrics, /livez and /readyz; any address, 0.0.0.0:9901 in a pod"`
}

// Log says what is logged.
type Log struct {
	Level          string        `yaml:"level" rule:"oneof=debug|info|warn|error" doc:"least severe level logged"`
	Format         string        `yaml:"format" rule:"oneof=json|console" doc:"form of a log line"`
	Access         string        `yaml:"access" rule:"oneof=off|degraded|all" doc:"which calls are logged: none, degraded and failed ones, or all"`
	ReportInterval time.Duration `yaml:"report_interval" doc:"interval of a summary line for each dependency; 0s = none"`
}

// Shutdown says how the process ends.
type Shutdown struct {
	DrainTimeout time.Duration `yaml:"drain_timeout" doc:"longest wait for calls in flight after SIGTERM"`
}

// Limits are bounds over all dependencies together.
type Limits struct {
	MaxConcurrent int `yaml:"max_concurrent" rule:"min=1" doc:"what the max_concurrent of all bulkheads may add up to; absent = no shared limit"`
}

// Cache is what all stale fallbacks share.
type Cache struct {
	MaxBytes       int64  `yaml:"max_bytes" rule:"size" doc:"memory for all stale copies together"`
	MaxObjectBytes int64  `yaml:"max_object_bytes" rule:"size" doc:"largest single answer that is kept"`
	Dir            string `yaml:"dir" doc:"directory that keeps the copies over a restart, relative to the configuration's folder, made where there is none, for this sidecar alone; empty = memory only"`
}

// Dependency is one downstream service: one listener, one upstream, one
// breaker, one bulkhead.
type Dependency struct {
	Name         string   `yaml:"name" rule:"own,required,form=name" doc:"name in metrics, logs and admin paths, kept exactly as written; unique, also when case is ignored; at most 128 bytes, without / ? #"`
	Listen       string   `yaml:"listen" rule:"own,required,form=address" doc:"host:port the app calls instead of the service; loopback unless allow_remote is true"`
	AllowRemote  bool     `yaml:"allow_remote" rule:"own" doc:"permit a listen address that other machines can reach"`
	Upstream     *url.URL `yaml:"upstream" rule:"own,required" doc:"absolute http or https URL of the service; a path is put before the caller's; user information is sent as Basic authorization"`
	Protocol     string   `yaml:"protocol" rule:"oneof=auto|http1|h2|h2c" doc:"protocol to the upstream; auto: ALPN on https, as the caller speaks on http"`
	PreserveHost bool     `yaml:"preserve_host" doc:"send the caller's Host instead of the upstream's"`
	TLS          TLS      `yaml:"tls" doc:"TLS to the upstream"`
	Policy       `yaml:",inline"`
	Breaker      Breaker  `yaml:"breaker" doc:"the circuit breaker"`
	Bulkhead     Bulkhead `yaml:"bulkhead" doc:"how many calls may run and wait at once"`
	Shadow       *Shadow  `yaml:"shadow" rule:"own,later" doc:"proposed settings that run beside the live ones and refuse nothing; absent = none"`
	Routes       []Route  `yaml:"routes" rule:"own,later" doc:"other settings for some calls; the first match wins"`
}

// Equal reports whether both dependencies mean the same.
func (d Dependency) Equal(o Dependency) bool { return reflect.DeepEqual(d, o) }

// TLS is how the upstream is spoken to on https.
type TLS struct {
	CAFile             string `yaml:"ca_file" doc:"PEM file of the authorities to trust, relative to the configuration's folder; empty = the system's; read anew when it changes"`
	CertFile           string `yaml:"cert_file" doc:"PEM file of the client certificate; read anew when it changes"`
	KeyFile            string `yaml:"key_file" doc:"PEM file of the client certificate's key; read anew when it changes"`
	ServerName         string `yaml:"server_name" doc:"name the certificate must carry; empty = the upstream's host"`
	MinVersion         string `yaml:"min_version" rule:"any,oneof=1.2|1.3" doc:"lowest TLS version"`
	InsecureSkipVerify bool   `yaml:"insecure_skip_verify" doc:"accept any certificate"`

	// content stands for what the files hold, so that Equal sees a rotation.
	content [sha256.Size]byte
}

// Policy are the settings that a route may change.
type Policy struct {
	Timeout         time.Duration `yaml:"timeout" doc:"the whole call: waiting, attempts, backoff and body; 0s = none"`
	AttemptTimeout  time.Duration `yaml:"attempt_timeout" doc:"one attempt, from its request sent to its response headers; 0s = none; default: timeout"`
	ConnectTimeout  time.Duration `yaml:"connect_timeout" doc:"making a connection, TLS included; 0s = none"`
	IdleTimeout     time.Duration `yaml:"idle_timeout" doc:"longest silence of an event stream, gRPC stream or upgraded connection; 0s = none"`
	MaxRequestBytes int64         `yaml:"max_request_bytes" rule:"size" doc:"largest request body, above it 413; 0 = no limit"`
	Failure         Failure       `yaml:"failure" doc:"which answers count as failures"`
	Retry           Retry         `yaml:"retry" doc:"further attempts after a failed one"`
	Fallback        []Fallback    `yaml:"fallback" doc:"answers given instead of a refusal or failure, tried in order"`
}

// Breaker is the policy of a circuit breaker.
type Breaker struct {
	Mode  string `yaml:"mode" rule:"oneof=enforce|observe|off" doc:"refuse calls, only count what would be refused, or do nothing"`
	Rules `yaml:",inline"`
}

// Rules say when a circuit opens and how it closes again.
type Rules struct {
	Window              Window        `yaml:"window" doc:"the outcomes that count: a number of calls (1 to 100000) or a duration"`
	MinCalls            int           `yaml:"min_calls" rule:"min=1" doc:"calls in the window before a ratio is looked at"`
	FailureRatio        float64       `yaml:"failure_ratio" rule:"ratio" doc:"share of failures in the window that opens the circuit; 0 = any failure"`
	ConsecutiveFailures int           `yaml:"consecutive_failures" rule:"min=0" doc:"failures in a row that open the circuit; 0 = not used"`
	SlowCall            *SlowCall     `yaml:"slow_call" doc:"open on slow answers too; absent = not used"`
	Cooldown            time.Duration `yaml:"cooldown" rule:"positive" doc:"how long an open circuit refuses before it probes"`
	Backoff             Backoff       `yaml:"backoff" doc:"growth of the cooldown with each failed probe"`
	Jitter              float64       `yaml:"jitter" rule:"ratio" doc:"random spread of the cooldown, as a share of it, to both sides"`
	Probes              int           `yaml:"probes" rule:"min=1" doc:"calls let through half-open, all of which must succeed"`
	Ramp                time.Duration `yaml:"ramp" doc:"time in which the bulkhead's limit grows back after recovery; 0s = none"`
}

// Window is a number of calls or a span of time; exactly one is set.
type Window struct {
	Calls int
	Span  time.Duration
}

// SlowCall opens a circuit on answers that come late.
type SlowCall struct {
	After time.Duration `yaml:"after" rule:"positive" doc:"response headers later than this are slow"`
	Ratio float64       `yaml:"ratio" rule:"ratio" doc:"share of slow calls in the window that opens the circuit; 0 = not used, which also drops an inherited rule"`
}

// Backoff is the growth of the cooldown.
type Backoff struct {
	Factor float64       `yaml:"factor" rule:"min=1" doc:"the cooldown is multiplied by it on each failed probe; 1 = no growth"`
	Max    time.Duration `yaml:"max" rule:"positive" doc:"longest cooldown when factor is above 1"`
}

// Bulkhead is the compartment of a dependency.
type Bulkhead struct {
	MaxConcurrent int           `yaml:"max_concurrent" rule:"min=1" doc:"calls running at once"`
	MaxWaiting    int           `yaml:"max_waiting" rule:"min=0" doc:"calls waiting at once; all others are refused"`
	QueueTimeout  time.Duration `yaml:"queue_timeout" doc:"longest wait; 0s = until the call's deadline"`
}

// Shadow holds proposed settings, judged on the live traffic. At least one is
// set; a key that the file does not set has the dependency's live value. A slow
// rule with a ratio of 0 is kept: it is the proposal to drop the live one.
type Shadow struct {
	Breaker  *Rules    `yaml:"breaker" doc:"a proposed breaker: any key of breaker but mode; a key left out has its live value"`
	Bulkhead *Bulkhead `yaml:"bulkhead" doc:"a proposed bulkhead: any key of bulkhead; a key left out has its live value"`
}

// Failure says which answers are failures.
type Failure struct {
	Statuses     Statuses `yaml:"statuses" doc:"HTTP statuses (100 to 599) that are failures: 503, 500-599, and exceptions such as !501"`
	GRPCStatuses []string `yaml:"grpc_statuses" rule:"grpc" doc:"gRPC status names that are failures"`
}

// Retry is the policy of further attempts.
type Retry struct {
	MaxRetries   int          `yaml:"max_retries" rule:"min=0" doc:"attempts after the first; 0 = none"`
	On           []string     `yaml:"on" rule:"conditions" doc:"what is retried: connect, reset, timeout, and HTTP statuses such as 502, 500-599 or !501"`
	Backoff      RetryBackoff `yaml:"backoff" doc:"pause before a retry, with full jitter"`
	Budget       Budget       `yaml:"budget" doc:"bound on the retries begun in the last second: max(min_per_second, ratio x calls begun)"`
	MaxBodyBytes int64        `yaml:"max_body_bytes" rule:"size" doc:"largest request body kept for a retry; a larger one streams through and is not retried"`
}

// RetryBackoff is the pause before a retry.
type RetryBackoff struct {
	Base time.Duration `yaml:"base" doc:"bound of the first pause, doubled for each further one"`
	Max  time.Duration `yaml:"max" doc:"longest pause"`
}

// Budget bounds the retries of a dependency.
type Budget struct {
	Ratio        float64 `yaml:"ratio" rule:"ratio" doc:"retries per call begun in the last second"`
	MinPerSecond int     `yaml:"min_per_second" rule:"min=0" doc:"retries a second that are always permitted"`
}

// Fallback is one way to answer instead; exactly one field is set.
type Fallback struct {
	Stale  *Stale  `yaml:"stale" doc:"the last good answer, from the cache"`
	Static *Static `yaml:"static" doc:"a fixed answer"`
}

// Stale answers with an earlier good answer.
type Stale struct {
	MaxAge time.Duration `yaml:"max_age" rule:"positive" doc:"oldest copy that is served"`
	VaryBy []string      `yaml:"vary_by" rule:"omitempty,form=header" doc:"request headers, such as Authorization or Cookie, by which copies are kept apart beside the answer's Vary: each user gets none but their own; values are kept as a keyed hash"`
}

// Static answers with a fixed response.
type Static struct {
	Status   int               `yaml:"status" rule:"min=200,max=599" doc:"HTTP status"`
	Headers  map[string]string `yaml:"headers" rule:"any" doc:"response headers, names kept as written; lengths and connection headers are set by the sidecar"`
	Body     []byte            `yaml:"body" rule:"omitempty" doc:"response body"`
	BodyFile string            `yaml:"body_file" rule:"omitempty" doc:"file with the body, relative to the configuration's folder, read at load, at most 1MiB; body then holds its contents"`
}

// Route changes the policy of the calls that it matches.
type Route struct {
	Match  `yaml:"match" rule:"named,required" doc:"which calls; both conditions must hold"`
	Policy `yaml:",inline"`

	// OwnFallback says that the route sets fallback itself, so that it answers
	// every method that the route names, and not GET and HEAD alone.
	OwnFallback bool
}

// Match selects calls; empty fields match everything.
type Match struct {
	Methods    []string `yaml:"methods" rule:"omitempty,form=method" doc:"HTTP methods; absent = all"`
	Path       string   `yaml:"path" rule:"omitempty,form=path" doc:"the whole path, exactly; excludes path_prefix"`
	PathPrefix string   `yaml:"path_prefix" rule:"omitempty,form=path" doc:"what the path begins with; excludes path"`
}
