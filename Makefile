# The only door: every task is a target here, and CI walks through it like everyone else.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
CARGO ?= cargo

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## the program, for development: target/debug/writ
	$(CARGO) build --locked

.PHONY: fmt
fmt: ## format all Rust code
	$(CARGO) fmt

.PHONY: lint
lint: ## formatting and clippy, warnings are errors
	$(CARGO) fmt --check
	$(CARGO) clippy --all-targets --locked -- -D warnings

# What is needed of the test cluster is built beside the Rust code the first time; whoever needs both waits for both.
beside = tests/cluster/beside control-plane

# Envoy comes ready-made.
.PHONY: test
test: ## all tests that need no root, on a control plane of their own (WRIT_SKIP_CLUSTER=1, WRIT_SKIP_ENVOY=1: without)
	@[ -n "$${WRIT_SKIP_ENVOY:-}" ] || tests/envoy/install >/dev/null
	@if [ -z "$${WRIT_SKIP_CLUSTER:-}" ] && [ -z "$${WRIT_TEST_KUBECONFIG:-}" ]; then \
	  $(beside) $(CARGO) test --locked --no-run; \
	fi
	$(CARGO) test --locked

.PHONY: check
check: lint test ## what every change must pass

.PHONY: golden
golden: ## rewrite the files that follow from the code (manifests/crds); review the difference
	UPDATE_GOLDEN=1 $(CARGO) test --locked --test it manifests

# The advisory database is a Git repository: it is fetched, or with OFFLINE=1 the copy of the last time is used. No crate of
# the registry holds it.
.PHONY: deny
deny: ## advisories, licences, sources and doubled crates of what is linked in; needs cargo-deny and the network (OFFLINE=1)
	@command -v cargo-deny >/dev/null || { echo 'make deny: cargo install cargo-deny --locked' >&2; exit 2; }
	$(CARGO) deny --locked $(if $(OFFLINE),--offline) check advisories licenses bans sources

.PHONY: sbom
sbom: ## what the program is made of, as CycloneDX: target/sbom/writ.cdx.json
	@.ci/sbom

.PHONY: doc
doc: ## the documentation of the code: target/doc/writ
	$(CARGO) doc --locked --no-deps

.PHONY: bench
bench: ## measurements, each beside a yardstick (ARGS: a name, --json, --quick)
	$(CARGO) bench --locked --bench bench -- $(ARGS)

.PHONY: bench-cluster
bench-cluster: ## generate rules on a control plane of their own, beside a bare client (ARGS: --json, --quick)
	@tests/cluster/build >/dev/null
	$(CARGO) bench --locked --bench bench -- cluster $(ARGS)

# What is found is kept beside the build, not in the corpus that the tests run.
.PHONY: fuzz
fuzz: TARGET ?= expression
fuzz: FOR ?= 600
fuzz: ## random input (TARGET=expression, template, policy, resource, author or json; FOR=seconds); needs Rust nightly and cargo-fuzz
	@command -v cargo-fuzz >/dev/null || { echo 'make fuzz: cargo install cargo-fuzz --locked' >&2; exit 2; }
	@mkdir -p tests/fuzz/target/corpus/$(TARGET)
	$(CARGO) +nightly fuzz run --fuzz-dir tests/fuzz -s none $(TARGET) \
	  tests/fuzz/target/corpus/$(TARGET) tests/fuzz/corpus/$(TARGET) -- -max_total_time=$(FOR) -timeout=10

.PHONY: certs
certs: ## a certificate authority and a leaf for development: certs/dev
	@certs/make

.PHONY: cluster
cluster: ## start a control plane on loopback and leave it running; prints its kubeconfig
	@tests/cluster/up

.PHONY: cluster-stop
cluster-stop: ## stop it, and a Writ that `make run` started
	@tests/cluster/down

.PHONY: run
run: ## Writ on that control plane, with examples to try (CONTEXT=name: on a cluster of your kubeconfig)
	@$(beside) $(CARGO) build --locked
	@tests/cluster/tour $(if $(CONTEXT),--context '$(CONTEXT)')

.PHONY: image
image: ## the container image as an OCI archive, without Docker: target/image/writ.tar
	@tests/cluster/image

.PHONY: e2e
e2e: ## the image and the manifests on a node with real pods; needs Linux and root (PROFILE=release: as released)
	@tests/cluster/e2e node

.PHONY: chaos
chaos: ## generate rules while everything fails around them, the long form (WRIT_CHAOS_SEED=number)
	@tests/cluster/build >/dev/null
	WRIT_CHAOS=long $(CARGO) test --locked --test e2e chaos:: -- --nocapture

.PHONY: conformance
conformance: $(if $(CLUSTER),,build) ## chainsaw tests of generate rules (CASES=folder; FILTER=text, JOBS=n, WITHIN=20s, CLUSTER=node)
	@[ -n '$(CASES)' ] || { echo 'make conformance CASES=FOLDER: which chainsaw tests?' >&2; exit 2; }
	@$(if $(CLUSTER),PROFILE=$(or $(PROFILE),fast) tests/cluster/image >/dev/null)
	@tests/cluster/conformance $(if $(FILTER),--filter '$(FILTER)') $(if $(JOBS),--jobs '$(JOBS)') \
	  $(if $(WITHIN),--within '$(WITHIN)') $(if $(CLUSTER),--cluster '$(CLUSTER)') '$(CASES)'

.PHONY: conformance-mesh
conformance-mesh: build ## rules and Inspect answers of mesh policies against goldens (DIR=folder with kuma/rules and run)
	@[ -n '$(DIR)' ] || { echo 'make conformance-mesh DIR=FOLDER: where are the goldens?' >&2; exit 2; }
	WRIT_KUMA_GOLDENS='$(abspath $(DIR))/kuma/rules' $(CARGO) test --locked --test it mesh::goldens
	'$(abspath $(DIR))/run' target/debug/writ --only inspect

.PHONY: e2e-kind
e2e-kind: ## the same tests on kind; needs Docker and kind
	@tests/cluster/e2e kind
