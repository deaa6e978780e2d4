package suites

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// grpcCases are the cases of grpc-go's interop client that need no cloud
// credentials, without two that the service does not pass directly either:
// pick_first_unary wants a server's name in the answer, which grpc-go's own does
// not give, and orca_oob wants reports more often than a server outside grpc-go
// may send them.
var grpcCases = []string{
	"empty_unary", "large_unary", "client_streaming", "server_streaming", "ping_pong", "empty_stream",
	"timeout_on_sleeping_server", "cancel_after_begin", "cancel_after_first_response",
	"status_code_and_message", "special_status_message", "custom_metadata",
	"unimplemented_method", "unimplemented_service",
	"orca_per_rpc", "rpc_soak", "channel_soak",
}

// serviceConfig is what grpc-go's own script gives its client: the balancer
// reads the load reports that the orca cases ask for.
const serviceConfig = `{"loadBalancingConfig": [{"test_backend_metrics_load_balancer": {}}]}`

// observing is for runs whose calls mostly fail, as they should: the breaker
// gets every verdict and would rightly open.
const observing = "breaker: {mode: observe}"

// TestGRPCInterop runs grpc-go's interop client against its interop server,
// directly and through the sidecar: with the upstream in h2c and in TLS, and
// with each protocol that can be configured for it.
func TestGRPCInterop(t *testing.T) {
	t.Parallel()
	files := newCertificates(t)
	plain, secure := grpcServer(t, nil), grpcServer(t, &files)
	authority := fmt.Sprintf("tls: {ca_file: %q}", files.authority)
	plainURL, secureURL := fmt.Sprintf("http://127.0.0.1:%d", plain), fmt.Sprintf("https://127.0.0.1:%d", secure)
	s := startSidecar(t, sidecarBinary(t),
		dependency{"h2c-auto", plainURL, "protocol: auto"},
		dependency{"h2c-h2c", plainURL, "protocol: h2c"},
		dependency{"tls-auto", secureURL, "protocol: auto, " + authority},
		dependency{"tls-h2", secureURL, "protocol: h2, " + authority},
	)
	routes := []struct {
		name     string
		port     int
		throughs []string // what must pass where this does
		flags    []string
	}{
		{"direct h2c", plain, []string{"h2c-auto", "h2c-h2c"}, nil},
		{"direct TLS", secure, []string{"tls-auto", "tls-h2"}, []string{"-use_tls", "-use_test_ca", "-ca_file", files.authority}},
	}
	var directly, through tally
	for _, r := range routes {
		each(grpcCases, 2, func(name string) {
			if err := grpcClient(t.Context(), t, r.port, name, r.flags...); err != nil {
				directly.add(false)
				t.Logf("%s fails %s, so nothing is asked of the sidecar: %v", r.name, name, err)
				return
			}
			directly.add(true)
			for _, d := range r.throughs {
				err := grpcClient(t.Context(), t, s.ports[d], name)
				through.add(err == nil)
				if err != nil {
					t.Errorf("%s passes %s, the sidecar (%s) does not: %v", r.name, name, d, err)
				}
			}
		})
	}
	t.Logf("direct: %v; through the sidecar: %v", &directly, &through)
	if directly.passed < 2*len(grpcCases) {
		t.Errorf("only %d of %d cases pass directly", directly.passed, 2*len(grpcCases))
	}
	for d := range s.ports {
		s.atRest(d)
		if state := s.state(d); state.Breaker.Opened > 0 {
			t.Errorf("%s: the breaker opened %d times", d, state.Breaker.Opened)
		}
	}
}

// TestGRPCLoad runs cases many at a time through a sidecar with the race
// detector. Most of their calls end in an error status, so that the headers of
// an answer and its end must be kept together, or apart, as they came.
func TestGRPCLoad(t *testing.T) {
	t.Parallel()
	upstream := grpcServer(t, nil)
	s := startSidecar(t, sidecarRaceBinary(t), dependency{"load", fmt.Sprintf("http://127.0.0.1:%d", upstream), observing})
	runs := []string{}
	for range 200 {
		runs = append(runs, "status_code_and_message")
	}
	for _, name := range []string{"special_status_message", "unimplemented_method", "unimplemented_service", "empty_stream", "cancel_after_begin", "cancel_after_first_response", "custom_metadata", "ping_pong"} {
		for range 10 {
			runs = append(runs, name)
		}
	}
	var all tally
	each(runs, 20, func(name string) {
		err := grpcClient(t.Context(), t, s.ports["load"], name)
		all.add(err == nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	})
	t.Logf("20 at a time: %v; attempts with an error status: %v", &all, s.metric("sidecar_attempts_total", `result="status"`))
	s.atRest("load")
	if failures := s.metric("sidecar_attempts_total", `result="status"`); failures < 2*200 {
		t.Errorf("the breaker was told of %v failures, want 2 for each of the 200 status_code_and_message at least", failures)
	}
}

// each calls f for every name, some at a time, and waits.
func each(names []string, atOnce int, f func(name string)) {
	work := make(chan string)
	var workers sync.WaitGroup
	for range atOnce {
		workers.Go(func() {
			for name := range work {
				f(name)
			}
		})
	}
	for _, name := range names {
		work <- name
	}
	close(work)
	workers.Wait()
}

// tally counts what passed. It is safe for concurrent use.
type tally struct {
	mu          sync.Mutex // guards everything below
	passed, ran int
}

func (n *tally) add(passed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ran++
	if passed {
		n.passed++
	}
}

func (n *tally) String() string { return fmt.Sprintf("%d of %d passed", n.passed, n.ran) }

// grpcClient runs one case of grpc-go's interop client and returns what it
// complained of.
func grpcClient(ctx context.Context, t *testing.T, port int, name string, flags ...string) error {
	ctx, cancel := context.WithTimeout(ctx, testTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, program(t, grpcClientProgram), append(flags,
		"-server_host", "127.0.0.1", "-server_port", strconv.Itoa(port), "-test_case", name, "-service_config_json", serviceConfig,
		"-soak_per_iteration_max_acceptable_latency_ms", strconv.FormatInt(testTimeout.Milliseconds(), 10))...)
	cmd.Env = append(os.Environ(), "GRPC_GO_LOG_SEVERITY_LEVEL=error")
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}
