// Package browser holds the tests of the status page: the built binary, and
// the page in a real Chromium, as an operator meets it. They look at what is
// shown, how soon, what the browser complains of, and, with axe-core, at what
// keeps people out.
//
// Without a Chromium (chromium, chromium-browser or google-chrome) on the PATH
// they are skipped. It is a module of its own, so that the sidecar needs none of
// what the tests need:
//
//	cd browser && go test ./...
//	cd browser && go test -run Pictures -artifacts -outputdir /tmp   # keeps the pictures
//
// testdata has axe-core 4.14.1 (MPL-2.0) as published on npm, unchanged.
package browser
