# Everything a contributor runs. `make` lists the targets.
SHELL := /bin/bash
BIN := bin/holdfast
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X github.com/holdfast-dev/holdfast/internal/cli.version=$(VERSION)
GOLANGCI := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

# Packages that the race detector does not instrument. modernc.org/sqlite is C translated to Go: with instrumentation,
# tests of SQLite take five times as long and check only memory of SQLite. The same holds for kong and regexp, which parse command lines.
RACE := -race $(foreach p,modernc.org/sqlite/lib modernc.org/libc modernc.org/memory github.com/alecthomas/kong regexp,-gcflags=$(p)=-race=false)

# Tests without the race detector: those that repeat code of other tests (on other tables, in broken stores, by scripts
# of the command, with more URLs, without a restart), and those in which it finds nothing (killed processes, many rows).
RACE_SKIP := BehindAPooler|SuiteCatchesBroken|SuiteDetectsDefects|TestScripts|TestPasswordsAreNotShown/bad
RACE_SKIP := $(RACE_SKIP)|SurviveKill|SurvivesKill|TestBlobStreams|TestLongTermRecall|TestTerminalCacheIsBounded|WhileAnIndexIsBuilt
RACE_SKIP := $(RACE_SKIP)|TestWalkWithFilterFindsTheNearest|TestChurnKeepsRecallAndRows|TestSnapshotRestoresTheIndex|TestSnapshotRejectsDamage|TestSearchFindsTheNearest|TestWalkFindsSelectedItemsFarFromTheQuery|TestEqualVectorsDoNotHideOthers|BetweenBackends|TestCorpusOf
RACE_SKIP := $(RACE_SKIP)|InAGE|TestStorageCheckOnPostgres|TestTransferThroughPostgres|TestBlobsInS3|TestBlobsInABucket|TestTranscriptsAndStatesInRedis

# Packages without goroutines of their own, whose tests take long.
RACE_WITHOUT := ./internal/pdftext

# Packages of which some tests run with the race detector: those with several goroutines. Most code of the databases makes
# statements, which run elsewhere, and most code of commands is for one goroutine. Suites: the groups of tests with these names.
RACE_SOME := ./backend/sqlite ./backend/postgres ./backend/redis ./backend/s3 ./internal/cli ./internal/transfer
RACE_RUN := Concurrent|Interrupt|Signal|Chat|Reload|Stop|Shutdown|Serve|Running|Group|Share|TwoStores|Notif|Watch|Close|Cache|Cancel|Conflict|Locked|Slow|Late|LostAnswers|ManyStores|ReplicasFix
RACE_RUN := $(RACE_RUN)|Test(Store|History|ShortTerm|LongTerm|Boards|Blobs|Vectors|VectorsWithLittleIndexMemory|Graph)$$/(concurren|races|.*_races|one_of|.*while|.*during|claim|effects|deletion|durability)

.DEFAULT_GOAL := help

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build the static binary bin/holdfast
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/holdfast

build-grpc: ## build the static binary bin/holdfast-grpc, which serves gRPC too
	cd server/grpc && CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o $(CURDIR)/bin/holdfast-grpc ./cmd/holdfast-grpc

run: ## start the built-in summarizer on 127.0.0.1:3773
	go run ./cmd/holdfast serve

test: ## run every test of the module and of its benchmarks, after installing their prerequisites
	./scripts/prerequisites
	./scripts/services run go test -timeout 20m -shuffle=on -skip BehindAPooler ./...
	./scripts/services run --pooler go test -count=1 -run BehindAPooler ./backend/postgres
	cd bench && go test ./...
	cd server/grpc && go test ./...

test-race: ## run the tests under the race detector, except those in which it can find nothing
	./scripts/services run go test $(RACE) -vet=off -timeout 20m -shuffle=on -skip "$(RACE_SKIP)" $$(go list ./... | grep -vE '($(subst $() ,|,$(patsubst .%,%,$(RACE_SOME) $(RACE_WITHOUT))))$$')
	./scripts/services run go test $(RACE) -vet=off -timeout 20m -shuffle=on -skip "$(RACE_SKIP)" -run '$(RACE_RUN)' $(RACE_SOME)
	cd server/grpc && go test -race -vet=off ./...

faults: build ## test real processes with kill -9, full disks and lost databases (FAULTS_LONG=5 FAULTS_CHAOS=10m: longer)
	go test -count=1 -tags faults -timeout $(or $(FAULTS_TIMEOUT),30m) ./faults/...

interop: build build-grpc ## test the binary with clients of other projects (INTEROP_WRITE=1: update the table in docs/conformance.md)
	cd interop && HOLDFAST_BIN=$(CURDIR)/$(BIN) HOLDFAST_GRPC_BIN=$(CURDIR)/bin/holdfast-grpc go test -count=1 ./...

conformance: ## run an official kit and write its score to docs/conformance.md (KIT=path of the kit)
	go run ./examples/conformance/kits -kit "$(KIT)" -docs docs/conformance.md $(KIT_FLAGS)

bench: build build-grpc ## compare with the official Go SDK and a bare echo server
	cd bench && go run ./cmd/compare -holdfast $(CURDIR)/$(BIN) -holdfast-grpc $(CURDIR)/bin/holdfast-grpc $(BENCH_FLAGS)
	cd bench && go run ./cmd/size

check: ## formatting, lint (with govet), tidiness
	test -z "$$(gofmt -l $$(git ls-files '*.go'))"
	./scripts/check-mod
	go run $(GOLANGCI) run ./...
	cd server/grpc && go run $(GOLANGCI) run ./...

fuzz: ## fuzz every decoder for a while (FUZZTIME=30s each; FUZZ="rpc a2a": these packages)
	./scripts/fuzz $(or $(FUZZTIME),30s) $(FUZZ)

.PHONY: help build build-grpc run test test-race faults interop conformance bench check fuzz
