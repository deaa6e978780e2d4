package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"

	"sidecar/http1"
	"sidecar/resilience/breaker"
	"sidecar/resilience/bulkhead"
)

// statusCanceled is logged for a call whose caller left before any status was
// sent. It never goes over the wire; nginx made the number known.
const statusCanceled = 499

// dialError marks an error in getting a connection, so that it can be told
// from one on a connection.
type dialError struct{ err error }

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

// classify names the reason for an error of the Transport that neither the
// sidecar nor the caller caused.
func classify(err error) Reason {
	var netError net.Error
	var dial *dialError
	switch {
	case errors.As(err, &netError) && netError.Timeout():
		return ReasonTimeout
	case errors.As(err, &dial):
		return ReasonConnect
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNABORTED),
		endedByPeer(err.Error()):
		return ReasonReset
	default:
		return ReasonProtocol
	}
}

// endedByPeer reports whether an error of the Transport tells of an end that
// the upstream made, or of one that was found dead. The Transport's own errors
// for these have no exported type.
func endedByPeer(text string) bool {
	for _, words := range []string{
		"server closed idle connection", // an EOF in place of a response
		"received from peer",            // RST_STREAM
		"server sent GOAWAY and closed the connection",
		"client connection lost", // a ping without an answer
	} {
		if strings.Contains(text, words) {
			return true
		}
	}
	return false
}

// whyCut names the reason for a context that ended: by a deadline of ours, by
// the caller's, or because the caller has left.
func whyCut(cause error) Reason {
	switch {
	case errors.Is(cause, errTimeout), errors.Is(cause, errAttempt), errors.Is(cause, errSilent):
		return ReasonTimeout
	case errors.Is(cause, errDeadline):
		return ReasonDeadline
	default:
		return ReasonCanceled
	}
}

// trouble is what went wrong with a call, as its caller is told.
type trouble struct {
	why     Reason
	status  int    // of the sidecar's own answer
	proxy   string // the parameters of Proxy-Status, RFC 9209 §2.3
	detail  string // for people; says what happened and never where
	refused bool
	drill   bool // a drill made it, not the upstream
}

// refused tells why a call was not let through to the upstream.
func refused(err error) trouble {
	t := trouble{status: http.StatusServiceUnavailable, refused: true}
	switch {
	case errors.Is(err, breaker.ErrOpen):
		t.why, t.proxy, t.detail = ReasonOpen, "destination_unavailable", "The circuit is open: recent calls to this dependency failed."
	case errors.Is(err, breaker.ErrProbing):
		t.why, t.proxy, t.detail = ReasonProbing, "destination_unavailable", "The circuit is half-open: its probes are under way."
	case errors.Is(err, bulkhead.ErrFull):
		t.why, t.proxy, t.detail = ReasonQueueFull, "connection_limit_reached", "Every permit and every waiting place of this dependency is taken."
	case errors.Is(err, bulkhead.ErrQueueTimeout), errors.Is(err, errTimeout):
		t.why, t.proxy, t.detail = ReasonQueueTimeout, "connection_limit_reached", "No permit of this dependency became free in time."
	case errors.Is(err, errDeadline):
		return failed(ReasonDeadline, err)
	default:
		t.why, t.status, t.refused = ReasonCanceled, statusCanceled, false
	}
	return t
}

// failed tells why the last attempt of a call brought no answer.
func failed(why Reason, err error) trouble {
	t := trouble{why: why, status: http.StatusBadGateway}
	switch why {
	case ReasonTimeout:
		t.status, t.proxy, t.detail = http.StatusGatewayTimeout, "http_response_timeout", "The dependency did not answer in time."
		if dial := (*dialError)(nil); errors.As(err, &dial) {
			t.proxy, t.detail = "connection_timeout", "No connection to the dependency could be made in time."
		}
	case ReasonDeadline:
		t.status, t.proxy, t.detail = http.StatusGatewayTimeout, "http_response_timeout", "The deadline that came with the request passed."
	case ReasonConnect:
		t.proxy, t.detail = connectError(err), "No connection to the dependency could be made."
	case ReasonReset:
		t.proxy, t.detail = "connection_terminated", "The dependency closed the connection before its answer was complete."
	case ReasonProtocol:
		t.proxy, t.detail = "http_protocol_error", "What the dependency sent is not a valid HTTP response."
	default:
		t.status = statusCanceled
	}
	return t
}

// connectError gives RFC 9209's word for what kept a connection from being
// made.
func connectError(err error) string {
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		return "dns_error"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection_refused"
	case errors.As(err, new(*tlsError)):
		return "tls_protocol_error"
	default:
		return "destination_ip_unroutable"
	}
}

// badStatus tells of an upstream's answer whose status counts as a failure.
func badStatus(status int) trouble {
	return trouble{why: ReasonStatus, status: status}
}

// unacceptable tells of a request that no upstream may see, or returns nil.
func (c *call) unacceptable() *trouble {
	switch r := c.r; {
	case r.Method == http.MethodConnect:
		return badRequest(http.StatusBadRequest, "CONNECT is not accepted: each port of the sidecar leads to one dependency.")
	case r.Method == "PRI":
		return badRequest(http.StatusBadRequest, "An HTTP/2 preface was sent as a request.")
	case !http1.IsToken(r.Method):
		// net/http sees to it in HTTP/1.1 only, and to the target likewise.
		return badRequest(http.StatusBadRequest, "The request's method is not a token.")
	case strings.IndexByte(r.RequestURI, ' ') >= 0:
		return badRequest(http.StatusBadRequest, "The request's target has a space in it, which is written %20.")
	case hasToken(r.Header["Upgrade"], "h2c"):
		return badRequest(http.StatusBadRequest, "Upgrade: h2c is not accepted (RFC 9113 §3.1 has obsoleted it).")
	case c.framedTwice():
		return badRequest(http.StatusBadRequest, "The request has both Content-Length and Transfer-Encoding.")
	case !validNames(r.Trailer):
		// The Transport would refuse it, as if the upstream had failed.
		return badRequest(http.StatusBadRequest, "The request announces a trailer whose name is not valid.")
	case c.policy.MaxRequestBytes > 0 && r.ContentLength > c.policy.MaxRequestBytes:
		return c.tooLarge()
	case c.patient && c.patience <= 0:
		late := failed(ReasonDeadline, errDeadline)
		return &late
	}
	return nil
}

func badRequest(status int, detail string) *trouble {
	return &trouble{why: ReasonRequest, status: status, proxy: "http_request_denied", detail: detail}
}

func (c *call) tooLarge() *trouble {
	return badRequest(http.StatusRequestEntityTooLarge,
		fmt.Sprintf("The request body is larger than the %d bytes that this dependency takes.", c.policy.MaxRequestBytes))
}

// stalled tells of a caller that stopped in the middle of its request.
func stalled() trouble {
	return trouble{
		why: ReasonCanceled, status: http.StatusRequestTimeout,
		proxy: "http_request_error", detail: "The request body did not arrive in time.",
	}
}

// whyEnded tells trouble from the error that ReverseProxy was left with.
func (c *call) whyEnded(err error) trouble {
	switch {
	case errors.Is(c.body.fault(), errTooLarge):
		return *c.tooLarge()
	case errors.Is(context.Cause(c.ctx), errStalled):
		return stalled()
	case c.failure == "":
		// ReverseProxy refused the request before any attempt.
		return *badRequest(http.StatusBadRequest, "The request asks for an upgrade to a protocol whose name is not valid.")
	default:
		return c.marked(failed(c.failure, err))
	}
}

// validNames reports whether all names of fields are tokens (RFC 9110 §5.6.2).
// net/http checks those of a request's headers, but not of its trailers.
func validNames(h http.Header) bool {
	for name := range h {
		if !http1.IsToken(name) {
			return false
		}
	}
	return true
}

// hasToken reports whether a list header holds a token, ignoring case.
func hasToken(lines []string, token string) bool {
	for _, line := range lines {
		for t := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(t), token) {
				return true
			}
		}
	}
	return false
}
