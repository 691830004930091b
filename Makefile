# Targets a person types. `make help` lists them.
MAKEFLAGS += --warn-undefined-variables # a recipe whose variable is gone does nothing, and passes
GO        ?= go
LINT      := $(shell $(GO) env GOPATH)/bin/golangci-lint
LINT_AT   := v2.15.0
WORKFLOWS := $(shell $(GO) env GOPATH)/bin/actionlint
WORKFLOWS_AT := v1.7.12
# One ID for the builds of all platforms: the hash of the toolchain's version and of all that goes into any of them, by name.
BUILT_OF  := $(shell { echo ./go.mod; echo ./go.sum; find . -name '*.go' -not -name '*_test.go'; \
             grep -r --include='*.go' '^//go:embed ' . | sed 's|/[^/]*[.]go://go:embed |/ |' | awk '{for (i = 2; i <= NF; i++) print $$1 $$i}'; } | LC_ALL=C sort -u)
BUILD_ID  := $(shell { $(GO) env GOVERSION; for f in $(BUILT_OF); do echo $$f; cat $$f; done; } | sha256sum | cut -c1-16)
# The tag of the commit names a release; between releases, the commit names the build, as Go does it.
COMMIT    := $(shell git rev-parse --verify -q HEAD 2>/dev/null)
VERSION   ?= $(or $(patsubst v%,%,$(shell git describe --tags --exact-match --match 'v[0-9]*' 2>/dev/null | grep -Ex 'v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?')),\
             $(if $(COMMIT),$(shell TZ=UTC git log -1 --abbrev=12 --date=format-local:%Y%m%d%H%M%S --format=0.0.0-%cd-%h)))
GOFLAGS_BUILD := -trimpath -buildvcs=false -ldflags='-s -w -X main.linkedID=$(BUILD_ID) -X main.linkedVersion=$(VERSION) -X main.linkedCommit=$(COMMIT)'

PLATFORMS ?= linux-amd64 linux-arm64 darwin-amd64 darwin-arm64 windows-amd64

.PHONY: help build build-id archives release check lint unit test long e2e demo demo-rdma fuzz bench golden

STEP ?=

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  %-10s %s\n", $$1, $$2}'

build: bin/fabricform bin/fabricform-linux-amd64 bin/fabricform-linux-arm64 ## bin/fabricform for this machine, and helpers for linux on amd64 and arm64 beside it

bin/fabricform: FORCE
	CGO_ENABLED=0 $(GO) build $(GOFLAGS_BUILD) -o $@ ./cmd/fabricform

bin/fabricform-%: FORCE
	CGO_ENABLED=0 GOOS=$(word 1,$(subst -, ,$*)) GOARCH=$(word 2,$(subst -, ,$*)) $(GO) build $(GOFLAGS_BUILD) -o $@ ./cmd/fabricform

FORCE:

archives: build $(PLATFORMS:%=bin/fabricform-%) ## dist/: the archives of a release, with checksums; PLATFORMS=linux-amd64 makes one
	VERSION=$(VERSION) VERSION_FROM="$(origin VERSION)" packaging/release archives $(PLATFORMS)

release: build $(PLATFORMS:%=bin/fabricform-%) ## archives as above, packages for Debian and RPM, and lists of what is linked
	VERSION=$(VERSION) VERSION_FROM="$(origin VERSION)" packaging/release all $(PLATFORMS)

build-id: ## the ID of a build of these files, and what it is the hash of
	@printf '%s\n' $(BUILD_ID) $(BUILT_OF)

check: lint unit ## format, vet, lint and unit tests: no root, no network

lint: ## golangci-lint with the project's rules, gofmt and vet among them; actionlint for the example workflow
	@test -x $(LINT) || $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_AT)
	@test -x $(WORKFLOWS) || $(GO) install github.com/rhysd/actionlint/cmd/actionlint@$(WORKFLOWS_AT)
	$(LINT) run ./...
	$(WORKFLOWS) -shellcheck= -pyflakes= -ignore 'label "fabric" is unknown' examples/gitops/github.yml
	$(GO) mod tidy -diff

unit: ## tests that need neither root nor namespaces
	$(GO) test ./...
	$(GO) test -C nccl/launch/manifests -vet=off '-gcflags=k8s.io/...=-N -l' '-gcflags=github.com/...=-N -l' .

test: ## every test, with a small sample of the long ones: about 30 minutes; the README's second command
	.ci/run

long: build ## every test at full size, one heavy thing at a time: hours. It goes on where it stopped, and writes docs/tested.md. STEP=owners runs one step
	.ci/long $(STEP)

e2e: build ## the main job and its failures against OpenSSH's sshd, in namespaces and virtual machines; needs root
	FABRICFORM_E2E=1 FABRICFORM_BIN=$(CURDIR)/bin/fabricform $(GO) test -count=1 -timeout 90m ./e2e

demo: ## lab up, plan, apply, verify, an empty second plan, lab down; the README's first command
	./examples/demo.sh

demo-rdma: ## real RDMA in two virtual machines: image, lab up, apply, perftest, packets on the wire
	./examples/demo-rdma.sh

fuzz: ## each fuzz target for 5 s
	@.ci/fuzz $(GO) 5s

bench: build ## 16 hosts, 1,000 simulated ones and the probes beside their peers, as ratios; needs root
	FABRICFORM_BENCH=1 FABRICFORM_BIN=$(CURDIR)/bin/fabricform $(GO) test -count=1 -p 1 -timeout 60m -run '^TestBench' -v ./probe ./e2e
	$(GO) test -run '^$$' -bench . -benchtime 1x ./config

golden: ## rewrite expected files; read the diff before you commit it
	$(GO) test ./config -update
	$(GO) test ./nccl/launch -update
	$(GO) test ./nccl/explain -update
	$(GO) test ./providers/persist -update
	$(GO) test ./cmd/fabricform -update
	$(GO) test ./probe/perftest -update
	$(GO) test ./view -update
