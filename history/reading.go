package history

import (
	"time"

	"sidecar/resilience/breaker"
)

// Reading is what a dependency's counters and gauges say at one moment. The
// counters are cumulative.
type Reading struct {
	Name     string
	Counts   Counts // Saturated and SaturatedSeconds are not read
	InFlight int    // calls that have not ended

	// Calls holds every call but streams and upgrades, from arrival to the last
	// byte.
	Calls Durations
	// Served holds the calls that the upstream answered well, streams and
	// upgrades apart: how long each held its permit. An answer that looks like an
	// error ([ErrorAnswer]) is not well, whatever the policy says: errors are
	// often fast. Calls that met a fire drill are left out.
	Served Durations
	// Attempts holds the attempts that succeeded in this sense, up to their
	// headers.
	Attempts Durations
	// Left holds the calls whose callers went away before any answer, or said in
	// advance when they would, and how long these had waited.
	Left Durations

	State   breaker.State
	Forced  bool      // by an operator
	Since   time.Time // when State began
	InUse   int       // permits
	Limit   int       // permits at present
	Permits int       // permits apart from any ramp: max_concurrent
	Waiting int       // calls in the queue
}

// begun returns how many calls have begun.
func (r *Reading) begun() uint64 { return r.Counts.Calls() + uint64(max(r.InFlight, 0)) }
