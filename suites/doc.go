// Package suites holds test suites that were written elsewhere, run against
// the sidecar as an app meets it: the built binary, on its own ports.
//
//   - h2spec, the conformance suite of HTTP/2 servers (RFC 9113, RFC 7541);
//   - the interoperability suite of gRPC, its client talking to its server
//     through the sidecar;
//   - WebSocket cases (RFC 6455, RFC 7692) with the implementation of
//     github.com/coder/websocket on both sides.
//
// Each compares: what holds without the sidecar must hold with it. It is a
// module of its own, so that the sidecar needs none of what the suites need:
//
//	cd suites && go test ./...
package suites
