# Targets a person types. `make help` lists them.
MAKEFLAGS += --warn-undefined-variables # a recipe whose variable is gone does nothing, and passes
GO        ?= go
LINT      := $(shell $(GO) env GOPATH)/bin/golangci-lint
LINT_AT   := v2.15.0
# One id for the builds of all architectures: the hash of what they are built from.
BUILD_ID  := $(shell cat go.mod go.sum $$(find . -name '*.go' -not -name '*_test.go' | sort) | sha256sum | cut -c1-16)
GOFLAGS_BUILD := -trimpath -ldflags='-s -w -X main.linkedID=$(BUILD_ID)'

.PHONY: help build check lint unit test e2e e2e-long e2e-owners demo demo-rdma faults fuzz bench bench-full golden

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  %-10s %s\n", $$1, $$2}'

build: ## bin/fabricform for this machine, and helpers for linux on amd64 and arm64 beside it
	CGO_ENABLED=0 $(GO) build $(GOFLAGS_BUILD) -o bin/fabricform ./cmd/fabricform
	CGO_ENABLED=0 GOOS=linux GOARCH=amd64 $(GO) build $(GOFLAGS_BUILD) -o bin/fabricform-linux-amd64 ./cmd/fabricform
	CGO_ENABLED=0 GOOS=linux GOARCH=arm64 $(GO) build $(GOFLAGS_BUILD) -o bin/fabricform-linux-arm64 ./cmd/fabricform

check: lint unit ## format, vet, lint and unit tests: no root, no network

lint: ## golangci-lint with the project's rules; gofmt and vet are among them
	@test -x $(LINT) || $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_AT)
	$(LINT) run ./...
	$(GO) mod tidy -diff

unit: ## tests that need neither root nor namespaces
	$(GO) test ./...

test: ## everything a fresh machine can run; the README's second command
	.ci/run

e2e: ## the main job and its failures against OpenSSH's sshd, in namespaces and virtual machines; needs root
	FABRICFORM_E2E=1 $(GO) test -count=1 -timeout 90m ./e2e

demo: ## lab up, plan, apply, verify, an empty second plan, lab down; the README's first command
	./examples/demo.sh

demo-rdma: ## real RDMA in two virtual machines: image, lab up, apply, perftest, packets on the wire
	./examples/demo-rdma.sh

faults: ## applies broken in every way that we know: hosts go back by themselves; needs root. What passed with this build is not run again
	.ci/deps nft=nftables pkill=procps
	@mkdir -p bin
	FABRICFORM_E2E=1 FABRICFORM_FAULTS=$(CURDIR)/bin/faults.passed $(GO) test -count=1 -timeout 40m -run '^TestFaults$$' -v ./e2e

e2e-long: ## more in virtual machines: driver stacks, resets in the middle of a transaction; needs root, half an hour
	.ci/deps vm dpkg-scanpackages=dpkg-dev nft=nftables
	FABRICFORM_E2E=1 FABRICFORM_LONG=1 $(GO) test -count=1 -timeout 90m -run '^(TestInboxStack|TestStandInBundle|TestTransactionsOutliveResets|TestSoftRoCENCCLConf)$$' -v ./e2e

e2e-owners: ## what is declared survives a reboot, with each of five network managers; half an hour
	.ci/deps vm dpkg-scanpackages=dpkg-dev nft=nftables
	FABRICFORM_E2E=1 FABRICFORM_OWNERS=1 $(GO) test -count=1 -timeout 90m -run '^TestWhatIsDeclaredSurvivesAReboot$$' -v ./e2e

fuzz: ## each fuzz target for 5 s
	@.ci/fuzz $(GO) 5s

BENCH := FABRICFORM_BENCH=1 $(GO) test -count=1 -p 1 -timeout 60m -run '^TestBench' -v ./probe ./e2e

bench: build ## 16 hosts, 1,000 simulated ones and the probes beside their peers, as ratios; needs root
	$(BENCH)
	$(GO) test -run '^$$' -bench . -benchtime 1x ./config

bench-full: build ## the same with 64 hosts, 10,000 simulated ones and Ansible; ten minutes
	.ci/deps ansible-playbook=ansible-core iperf3=iperf3 fping=fping ping=iputils-ping
	FABRICFORM_BENCH_FULL=1 $(BENCH)

golden: ## rewrite expected files; read the diff before you commit it
	$(GO) test ./config -update
	$(GO) test ./nccl/launch -update
	$(GO) test ./nccl/explain -update
	$(GO) test ./providers/persist -update
	$(GO) test ./probe/perftest -update
