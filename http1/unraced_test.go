//go:build !race

package http1

const raced = false
