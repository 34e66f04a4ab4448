# Everything a contributor runs. `make` lists the targets.
SHELL := /bin/bash
BIN := bin/holdfast
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X github.com/holdfast-dev/holdfast/cli.version=$(VERSION)

# All targets compile alike, so that they share what the build cache has. The race detector needs cgo.
export CGO_ENABLED := 0
export GOFLAGS := $(GOFLAGS) -trimpath

GOLANGCI := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

# Packages that the race detector does not instrument. modernc.org/sqlite is C translated to Go: with instrumentation,
# tests of SQLite take five times as long and check only memory of SQLite. The same holds for kong and regexp, which parse command lines.
RACE := -race $(foreach p,modernc.org/sqlite/lib modernc.org/libc modernc.org/memory github.com/alecthomas/kong regexp,-gcflags=$(p)=-race=false)

# Packages with goroutines of their own. Their tests run with the race detector, and only there, except RACE_SKIP.
RACE_ALL := ./auth ./auth/issuer ./backend/inmem ./client ./embedding ./engine ./agents ./agents/conformance ./agents/echo ./agents/execagent ./agents/summarizer ./internal/fileref ./internal/memory ./internal/runtime
RACE_ALL := $(RACE_ALL) ./internal/safehttp ./internal/wire ./server/... ./store ./store/memory ./webhook

# Packages of which the tests with several goroutines run also with the race detector. Most code of the databases makes
# statements, which run elsewhere, and most code of commands is for one goroutine. Suites: the groups of tests with these names.
RACE_SOME := ./backend/sqlite ./backend/postgres ./backend/redis ./backend/s3 ./store/vector/ann ./cli ./cli/transfer
RACE_RUN := Concurrent|During|Workers|Interrupt|Signal|Chat|Reload|Stop|Shutdown|Serve|Running|Group|Share|TwoStores|Notif|Watch|Close|Cache|Cancel|Conflict|Locked|Slow|Late|LostAnswers|ManyStores|ReplicasFix
RACE_RUN := $(RACE_RUN)|Test(Store|History|ShortTerm|LongTerm|Boards|Blobs|Vectors|VectorsWithLittleIndexMemory|Graph)$$/(concurren|races|.*_races|one_of|.*while|.*during|claim|effects|deletion|durability)

# Tests without the race detector: those that repeat code of other tests (on other tables, in broken stores, by
# scripts, with more URLs), and those in which it finds nothing (killed processes, many rows).
RACE_SKIP := BehindAPooler|SuiteCatchesBroken|SuiteDetectsDefects|TestScripts|TestPasswordsAreNotShown/bad
RACE_SKIP := $(RACE_SKIP)|SurviveKill|SurvivesKill|TestBlobStreams|TestLongTermRecall|TestWordRecall|TestTerminalCacheIsBounded|WhileAnIndexIsBuilt
RACE_SKIP := $(RACE_SKIP)|BetweenBackends|TestCorpusOf|InAGE|TestStorageCheckOnPostgres|TestTransferThroughPostgres|TestBlobsInS3|TestBlobsInABucket|TestTranscriptsAndStatesInRedis

# Tests of RACE_ALL without the race detector: RACE_SKIP, and those that do less with it.
RACE_PLAIN := $(RACE_SKIP)|TestSim|TestBacklogDrains|TestDeadEndpointsDoNotDelay|TestSaturatedEndpoint|TestRecoveredHostIsCalled

# Packages whose tests start programs of the repository that go test does not know.
UNCACHED := ./examples/receivers

# go test with what the gate reports. The flags are the same everywhere, so that all targets share results. No flag is one
# that go test cannot keep results with, such as -shuffle. Data in memory costs less than on a disk.
GOTEST = env TMPDIR=$$(./scripts/services tmpdir) go run ./scripts/gotest
FLAGS := -vet=off -p 4 -parallel 4 -timeout 20m

.DEFAULT_GOAL := help

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build the static binary bin/holdfast
	go build -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/holdfast

build-full: ## build the static binary bin/holdfast-full, which serves gRPC too
	cd server/grpc && go build -ldflags '$(LDFLAGS)' -o $(CURDIR)/bin/holdfast-full ./cmd/holdfast-full

run: ## start the built-in summarizer on 127.0.0.1:3773
	go run ./cmd/holdfast serve

quick: ## run all tests that need nothing but Go
	$(GOTEST) $(FLAGS) -- ./...

test: ## run all tests, after installing and starting what they need (packages with goroutines: under the race detector)
	./scripts/prerequisites
	./scripts/services run $(MAKE) --no-print-directory test-installed

test-installed:
	$(GOTEST) $(FLAGS) -tags services -- $$(comm -23 <(go list ./... | sort) <(go list $(RACE_ALL) $(UNCACHED) | sort))
	$(GOTEST) $(FLAGS) -count=1 -- $(UNCACHED)
	$(GOTEST) $(FLAGS) -tags services -run '$(RACE_PLAIN)' -- $(RACE_ALL)
	CGO_ENABLED=1 $(GOTEST) $(RACE) $(FLAGS) -tags services -skip '$(RACE_SKIP)' -- $(RACE_ALL)
	$(GOTEST) -C bench $(FLAGS) -- ./...
	CGO_ENABLED=1 $(GOTEST) -C server/grpc $(RACE) $(FLAGS) -tags services -- ./...

test-race: ## run the concurrent tests of the databases and commands under the race detector too
	./scripts/services run $(MAKE) --no-print-directory test-race-installed

test-race-installed:
	CGO_ENABLED=1 $(GOTEST) $(RACE) $(FLAGS) -tags services -skip '$(RACE_SKIP)' -run '$(RACE_RUN)' -- $(RACE_SOME)

faults: build ## test real processes with kill -9, full disks and lost databases (FAULTS_LONG=5 FAULTS_CHAOS=10m: longer)
	go run ./scripts/gotest -count=1 -tags faults,services -vet=off -parallel 8 -timeout $(or $(FAULTS_TIMEOUT),60m) -- ./faults

interop: build build-full ## test the binary with clients of other projects (INTEROP_WRITE=1: update the table in docs/conformance.md)
	HOLDFAST_BIN=$(CURDIR)/$(BIN) HOLDFAST_FULL_BIN=$(CURDIR)/bin/holdfast-full go run ./scripts/gotest -C interop -count=1 -- ./...

conformance: ## run an official kit and write its score to docs/conformance.md (KIT=path of the kit)
	go run ./examples/conformance/kits -kit "$(KIT)" -docs docs/conformance.md $(KIT_FLAGS)

bench: build build-full ## compare with the official Go SDK and a bare echo server
	cd bench && go run ./cmd/compare -holdfast $(CURDIR)/$(BIN) -holdfast-full $(CURDIR)/bin/holdfast-full $(BENCH_FLAGS)
	cd bench && go run ./cmd/size

check: ## formatting, lint (with govet), tidiness
	test -z "$$(gofmt -l $$(git ls-files '*.go'))"
	./scripts/check-mod
	work=$$(mktemp -d) && trap 'rm -rf "$$work"' EXIT && \
	printf '%s\n' "$$(grep '^go ' go.mod)" "use $$PWD" "use $$PWD/server/grpc" >"$$work/go.work" && \
	GOWORK=$$work/go.work go run $(GOLANGCI) run ./... ./server/grpc/...

fuzz: ## fuzz every decoder for a while (FUZZTIME=30s each; FUZZ="rpc a2a": these packages)
	./scripts/fuzz $(or $(FUZZTIME),30s) $(FUZZ)

mutants: ## build a defect into the engine and the server, one at a time, and check that a test notices it
	go test -count=1 -tags mutants -vet=off -timeout 3h ./internal/mutants

long: ## run what the gate leaves out, for about two hours: random seeds and orders on a busy machine, fuzzing, mutants, long faults
	./scripts/prerequisites
	./scripts/services run $(MAKE) --no-print-directory long-installed

long-installed:
	HOLDFAST_TEST_SEED=random ./scripts/busy 4 $(GOTEST) $(FLAGS) -tags services,long -shuffle=on -count=3 -timeout 2h -- ./...
	$(MAKE) --no-print-directory mutants
	$(MAKE) --no-print-directory fuzz
	$(MAKE) --no-print-directory faults FAULTS_LONG=5 FAULTS_TIMEOUT=2h
	$(MAKE) --no-print-directory bench BENCH_FLAGS=-short

.PHONY: help build build-full run quick test test-installed test-race test-race-installed faults interop conformance bench check fuzz mutants long long-installed
