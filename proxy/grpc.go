package proxy

import (
	"net/http"
	"strconv"
	"strings"
)

// isGRPC reports whether headers are those of a gRPC message: application/grpc
// with any message format, but not gRPC-Web, which ends in its body.
func isGRPC(h http.Header) bool {
	const grpc = "application/grpc"
	kind := h["Content-Type"]
	if len(kind) == 0 || len(kind[0]) < len(grpc) {
		return false
	}
	rest, ok := strings.CutPrefix(strings.ToLower(kind[0]), grpc)
	return ok && (rest == "" || rest[0] == '+' || rest[0] == ';')
}

// The gRPC status codes that the sidecar uses itself.
const (
	grpcUnknown           = 2
	grpcInvalidArgument   = 3
	grpcDeadlineExceeded  = 4
	grpcResourceExhausted = 8
	grpcUnavailable       = 14
)

// grpcStatus reads a status from headers or trailers; present is false without
// one.
func grpcStatus(h http.Header) (code int, present bool) {
	text := h.Get("Grpc-Status")
	if text == "" {
		return 0, false
	}
	code, err := strconv.Atoi(text)
	if err != nil {
		return grpcUnknown, true
	}
	return code, true
}

// grpcCode is the status that stands for an HTTP status of the sidecar's own.
func grpcCode(status int) int {
	switch status {
	case http.StatusGatewayTimeout, http.StatusRequestTimeout:
		return grpcDeadlineExceeded
	case http.StatusRequestEntityTooLarge:
		return grpcResourceExhausted
	case http.StatusBadRequest:
		return grpcInvalidArgument
	default:
		return grpcUnavailable
	}
}

// answerGRPC is the sidecar's own answer to a gRPC call: trailers only, so that
// the status stands in the one header block.
func (c *call) answerGRPC(t trouble) {
	h := c.w.Header()
	h["Content-Type"] = []string{"application/grpc"}
	h["Grpc-Status"] = []string{strconv.Itoa(grpcCode(t.status))}
	h["Grpc-Message"] = []string{string(t.why) + ": " + t.detail}
	c.write(http.StatusOK, nil)
}
