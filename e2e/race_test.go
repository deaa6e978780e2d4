//go:build race

package e2e

import "time"

const (
	// slack is what the race detector, which makes the sidecar several times
	// slower, adds to every time that is measured.
	slack = 150 * time.Millisecond
	// atOnce is how many tests run at a time: they wait far more than they
	// compute.
	atOnce = "6"
)

// buildFlags build the sidecar as this test is built.
var buildFlags = []string{"-race"}
