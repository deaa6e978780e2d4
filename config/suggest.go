package config

import "strings"

// suggest returns the known key that an unknown one was probably meant to be.
func suggest(key string, known []string) (string, bool) {
	bare := strings.NewReplacer("-", "", "_", "", " ", "")
	best, bestDistance := "", 3
	for _, k := range known {
		if strings.EqualFold(bare.Replace(key), bare.Replace(k)) {
			return k, true
		}
		if n := distance(strings.ToLower(key), k); n < bestDistance && n*2 < len(k) {
			best, bestDistance = k, n
		}
	}
	return best, best != ""
}

// distance is the number of bytes inserted, deleted, replaced or swapped with
// their neighbour that leads from a to b (optimal string alignment).
func distance(a, b string) int {
	if len(a) > 64 { // longer than any key; keeps the table small
		return len(a)
	}
	d := make([][]int, len(a)+1)
	for i := range d {
		d[i] = make([]int, len(b)+1)
		d[i][0] = i
	}
	for j := range d[0] {
		d[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d[i][j] = min(d[i-1][j]+1, d[i][j-1]+1, d[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(a)][len(b)]
}
