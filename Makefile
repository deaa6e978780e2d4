# make check is what CI runs; the other targets are its parts.
.PHONY: check build test lint fmt fuzz soak bench bench-compare bench-micro pgo demo

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
	go test ./admin -run '^$$' -fuzz FuzzDrillOrder -fuzztime $(FUZZTIME)
	go test ./http1 -run '^$$' -fuzz FuzzAnswer -fuzztime $(FUZZTIME) -fuzzminimizetime 10x
	go test ./proxy -run '^$$' -fuzz FuzzReplay -fuzztime $(FUZZTIME) -fuzzminimizetime 10x
	go test ./proxy -run '^$$' -fuzz FuzzListener -fuzztime $(FUZZTIME) -fuzzminimizetime 10x

# The configuration is rewritten 500 times, in every way, under load; about four
# minutes. An ordinary test run does it 20 times.
SOAK ?= 500
soak:
	SOAK=$(SOAK) go test ./e2e -run '^TestSoak$$' -v -count 1 -timeout 60m

bench:
	go test ./resilience/... -run '^$$' -bench . -benchmem

# The sidecar beside other proxies: about half an hour, on a quiet machine.
bench-compare:
	cd bench && go run .

# What breaker and bulkhead cost, beside other libraries: about a minute.
bench-micro:
	cd bench && go run ./micro -out MICRO.md

# The profile by which the sidecar is compiled, cmd/sidecar/default.pgo: three
# minutes. Take a new one when the path of a call has changed.
pgo:
	cd bench && go run . -pgo

demo:
	go run ./cmd/sidecar demo
