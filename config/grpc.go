package config

import (
	"slices"
	"strings"
)

// grpcNames are the names of the gRPC status codes, each at its number
// (https://grpc.io/docs/guides/status-codes/).
var grpcNames = []string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
	"PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE",
	"UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
}

// MatchGRPC reports whether a gRPC status code is a failure. A number that has
// no name counts as UNKNOWN, as gRPC's own libraries take it.
func (f Failure) MatchGRPC(code int) bool {
	if code < 0 || code >= len(grpcNames) {
		code = slices.Index(grpcNames, "UNKNOWN")
	}
	return slices.ContainsFunc(f.GRPCStatuses, func(name string) bool { return strings.EqualFold(name, grpcNames[code]) })
}
