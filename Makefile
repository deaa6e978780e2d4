# make check is what CI runs; the other targets are its parts.
.PHONY: check build test lint fmt fuzz bench bench-compare demo

check:
	bash .ci/run

build:
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o sidecar ./cmd/sidecar

test:
	go test ./...

lint:
	go tool -modfile=tools/go.mod golangci-lint run ./...

fmt:
	gofmt -w .

# Each fuzz target for a minute; longer: make fuzz FUZZTIME=30m
FUZZTIME ?= 1m
fuzz:
	go test ./config -run '^$$' -fuzz FuzzParse -fuzztime $(FUZZTIME)
	go test ./proxy -run '^$$' -fuzz FuzzReplay -fuzztime $(FUZZTIME) -fuzzminimizetime 10x
	go test ./proxy -run '^$$' -fuzz FuzzListener -fuzztime $(FUZZTIME) -fuzzminimizetime 10x

bench:
	go test ./resilience/... -run '^$$' -bench . -benchmem

# The sidecar beside other proxies: about an hour, on a quiet machine.
bench-compare:
	cd bench && go run .

demo:
	go run ./cmd/sidecar demo
