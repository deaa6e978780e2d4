package advice

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"sidecar/config"
)

// mantissas are the numbers that people write, between 1 and 10.
var mantissas = []float64{1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 10}

// up returns the next number that a person would write, at least x.
func up(x float64) float64 {
	scale := math.Pow(10, math.Floor(math.Log10(x)))
	for _, m := range mantissas {
		if v := m * scale; v >= x*(1-1e-9) {
			return v
		}
	}
	return 10 * scale
}

// down returns the last number that a person would write, at most x.
func down(x float64) float64 {
	scale := math.Pow(10, math.Floor(math.Log10(x)))
	best := scale
	for _, m := range mantissas {
		if v := m * scale; v <= x*(1+1e-9) {
			best = v
		}
	}
	return best
}

// upCount rounds a number of things up, at least to 1.
func upCount(x float64) int { return int(math.Ceil(up(max(x, 1)) - 1e-9)) }

// downCount rounds a number of things down, at least to 1.
func downCount(x float64) int { return max(1, int(down(max(x, 1))+1e-9)) }

// minuteSteps are the durations above a minute that people write.
var minuteSteps = []time.Duration{
	time.Minute, 90 * time.Second, 2 * time.Minute, 3 * time.Minute, 5 * time.Minute, 10 * time.Minute,
	15 * time.Minute, 20 * time.Minute, 30 * time.Minute, time.Hour,
}

// upDuration rounds a duration up, to whole milliseconds.
func upDuration(d time.Duration) time.Duration {
	if d > 30*time.Second {
		for _, m := range minuteSteps {
			if m >= d {
				return m
			}
		}
		return d.Truncate(time.Hour) + time.Hour
	}
	return time.Duration(math.Ceil(up(max(d.Seconds()*1000, 1))-1e-9)) * time.Millisecond
}

// downDuration rounds a duration down, to whole milliseconds, at least one.
func downDuration(d time.Duration) time.Duration {
	return max(time.Millisecond, time.Duration(down(max(d.Seconds()*1000, 1))+1e-9)*time.Millisecond)
}

// written is a duration as it stands in a configuration.
func written(d time.Duration) string { return config.FormatDuration(d) }

// shown is a measured duration, with two digits: a histogram knows no more.
func shown(d time.Duration) string {
	unit := time.Duration(1)
	for d/unit >= 100 {
		unit *= 10
	}
	return config.FormatDuration(d.Round(unit))
}

// span is how long something was seen, for the middle of a sentence.
func span(d time.Duration) string {
	if d < 2*time.Minute {
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f minutes", d.Minutes())
}

// share is a part of a whole in per cent.
func share(part, whole uint64) string {
	if whole == 0 {
		return "0 %"
	}
	percent := 100 * float64(part) / float64(whole)
	if percent < 10 {
		return strconv.FormatFloat(percent, 'g', 2, 64) + " %"
	}
	return strconv.FormatFloat(percent, 'f', 0, 64) + " %"
}

// some counts things: "1 call", "1,200 calls".
func some(n uint64, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return thousands(n) + " " + thing
}

// thousands writes a number with commas.
func thousands(n uint64) string {
	s := strconv.FormatUint(n, 10)
	var b strings.Builder
	for i, c := range s {
		if i > 0 && (len(s)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(c)
	}
	return b.String()
}

// number is a measured number with three digits at most.
func number(x float64) string { return strconv.FormatFloat(x, 'g', 3, 64) }
