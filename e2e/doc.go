// Package e2e drives the real sidecar from outside: processes, sockets on the
// loopback interface, scripted upstreams and callers. It holds tests alone.
//
// A test writes a scripted upstream ([newUpstream]), a configuration and a
// call:
//
//	u := newUpstream(t, func(x *exchange) { x.respond(200, "hello") })
//	s := start(t, base+`
//	dependencies:
//	  - {name: a, listen: $A, upstream: http://$U}
//	`, u)
//	r := s.get("A", "/x")
//
// A word such as $A stands for a free loopback address, $U for the first
// upstream, $U2 for the second. When the test ends, the sidecar must be as it
// was at the start: goroutines, file descriptors and permits given back, exit
// code 0, and neither a panic nor a data race told.
//
// Tests named after a letter and a number (TestA1_…) are faults that users of
// such software reported, and others of their kind; each says what happened and
// what is right. Times are asserted to within [tolerance], widened by how late
// this machine was in waking a sleeper meanwhile (see [lateness]), and in a race
// build by [slack]. Of many refusals the median is measured.
package e2e
