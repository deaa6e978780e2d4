package history

// errorAnswers is the length of ErrorAnswers.
const errorAnswers = 16

// ErrorAnswers names the answers with which a service says that it failed, or
// that it has too much to do, whatever the policy thinks of them: HTTP statuses
// as digits ("5xx" for the uncommon ones), gRPC statuses by their names. The
// gRPC statuses that speak of the request alone, such as NOT_FOUND, are not
// among them, as 404 is not.
var ErrorAnswers = [errorAnswers]string{
	"429", "500", "501", "502", "503", "504", "505", "5xx",
	"UNKNOWN", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "ABORTED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS",
}

// grpcAnswers are the places in ErrorAnswers of gRPC's codes.
var grpcAnswers = map[int]int{2: 8, 4: 9, 8: 10, 10: 11, 12: 12, 13: 13, 14: 14, 15: 15}

// ErrorAnswer returns the place in [ErrorAnswers] of an answer with an HTTP
// status and a gRPC status (0 for none), and false for one that does not look
// like an error.
func ErrorAnswer(status, grpc int) (int, bool) {
	switch {
	case status == 429:
		return 0, true
	case status >= 500 && status <= 505:
		return 1 + status - 500, true
	case status >= 500:
		return 7, true
	}
	i, ok := grpcAnswers[grpc]
	return i, ok
}
