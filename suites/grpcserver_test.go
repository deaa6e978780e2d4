package suites

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/orca"
)

// grpcServer runs grpc-go's interop service until the test ends, with TLS where
// certificates are given. Its own program would listen on every interface.
func grpcServer(t *testing.T, secure *certificates) (port int) {
	t.Helper()
	program(t, grpcClientProgram) // once, before goroutines ask for it
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	options := []grpc.ServerOption{orca.CallMetricsServerOption(nil)}
	if secure != nil {
		creds, err := credentials.NewServerTLSFromFile(secure.cert, secure.key)
		if err != nil {
			t.Fatal(err)
		}
		options = append(options, grpc.Creds(creds))
	}
	server := grpc.NewServer(options...)
	recorder := orca.NewServerMetricsRecorder()
	testgrpc.RegisterTestServiceServer(server, interop.NewTestServer(interop.NewTestServerOptions{MetricsRecorder: recorder}))
	if err := orca.Register(server, orca.ServiceOptions{ServerMetricsProvider: recorder}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-ended; err != nil {
			t.Errorf("the interop server ended by itself: %v", err)
		}
	})
	return listener.Addr().(*net.TCPAddr).Port
}
