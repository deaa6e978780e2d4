//go:build !race

package e2e

const (
	// slack is what is added to every time that is measured.
	slack = 0
	// atOnce is how many tests run at a time: they wait far more than they
	// compute.
	atOnce = "6"
)

// buildFlags build the sidecar as this test is built.
var buildFlags []string
