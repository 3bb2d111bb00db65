# make build   the commands, into bin/
# make test    every check; see CONTRIBUTING.md for its stages
# make test-fast   format, vet, staticcheck and the tests that need no network and no time
# make demo    build and show the service on loopback, with a verdict
# make bench   benchmarks of the packages
# make bench-table   build and print the tables of rdsbench
# make fuzz    each fuzz target for FUZZTIME
# make clean   remove what the others made

GO       ?= go
FUZZTIME ?= 30s
BENCH    ?= .
COUNT    ?= 1

.PHONY: build test test-fast demo bench bench-table fuzz clean

build:
	mkdir -p bin
	$(GO) build -o bin/ ./cmd/...

test:
	bash test/run.sh

test-fast:
	STAGES="format vet staticcheck pure" bash test/run.sh

demo:
	bash test/demo.sh

bench:
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) ./...
	$(GO) test -tags live -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) $$(grep -rlE --include='*_test.go' '^//go:build .*live' . | xargs -n 1 dirname | sort -u)

bench-table: build
	bin/rdsbench
	bin/rdsbench --provider rdsd --duration 500ms
	bin/rdsbench rdma --duration 200ms

fuzz:
	STAGES=fuzz FUZZTIME=$(FUZZTIME) bash test/run.sh

clean:
	rm -rf bin benchmarks/bin
	$(GO) clean -testcache
