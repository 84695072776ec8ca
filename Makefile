# The one list of commands. `make help` prints it; .ci/run calls it.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
LOCKED := $(VENV)/.locked
STAMP := $(VENV)/.installed
CODE := scheduler webhook fakegpu gpucheck gpuctl tools bench tests hatch_build.py
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
ARGS ?=
# Extra words for pytest: make test-unit PYTEST_ARGS="tests/unit/model -k quantity"
PYTEST_ARGS ?=
VERSION ?=
# Where a release is published: make publish REGISTRY=HOST/PATH
REGISTRY ?=
# The folder with NVIDIA's programs: make e2e-nvidia NVIDIA=../nvidia
NVIDIA ?=
# With DRY_RUN=1 commands that build or use the network are printed and not run.
DRY_RUN ?=
DRY := $(if $(DRY_RUN),@echo +)

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: venv
venv: $(STAMP) ## create .venv from the lock file, with gpuctl in it

# Two stamps: a change of pyproject.toml or of a .proto file need not build the environment again.
# The second installs the project itself, which writes the modules of the .proto files. pip compiles
# one file at a time, compileall as many as there are cores; it fails at files for other Pythons.
$(LOCKED): requirements/dev.txt
	@[ -n "$(PYTHON)" ] || { echo "make venv: no Python 3.11 or newer found; install one," \
		"or name it: make venv PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "make venv:" \
		"$(PYTHON) is not Python 3.11 or newer" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "make venv: $(PYTHON) has no venv" \
		"module; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-compile \
		-r requirements/dev.txt
	@$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true
	@touch $@

$(STAMP): $(LOCKED) pyproject.toml hatch_build.py $(wildcard fakegpu/kubelet/*.proto)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-index --no-deps \
		--no-build-isolation --editable .
	@touch $@

# Two halves of about the same length: .ci/run has them side by side.
.PHONY: lint lint-types lint-rest
lint: lint-rest lint-types ## formatting, ruff, mypy --strict, import rules, unused dependencies, words and names

lint-types: $(STAMP)
	$(BIN)/mypy

lint-rest: $(STAMP)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/lint-imports
	$(BIN)/deptry scheduler webhook fakegpu gpucheck gpuctl
	$(BIN)/pytest -q -p no:cacheprovider tests/unit/docs/test_language.py tests/unit/docs/test_suppressions.py
	@$(BIN)/python -m tools.sizes

.PHONY: format
format: $(STAMP) ## let ruff format and sort imports
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

.PHONY: test
test: test-unit test-dashboard test-charts test-controlplane ## every test without root: unit and property first, then with real programs

.PHONY: controlplane
controlplane: $(STAMP) ## find or build the Kubernetes programs (the first time takes minutes)
	$(BIN)/python -m tools.controlplane build

.PHONY: prometheus
prometheus: $(STAMP) ## find Prometheus, or take it from the distribution's package without installing that
	$(BIN)/python -m tools.controlplane build --only prometheus

.PHONY: test-unit
test-unit: $(STAMP) ## unit, property and HTTP tests, and 300 recorded sequences of kube-scheduler (about 3 min)
	$(BIN)/pytest -n 2 --durations=15 tests/unit tests/property tests/http tests/differential $(PYTEST_ARGS)

.PHONY: test-dashboard
test-dashboard: $(STAMP) ## the dashboard's pages in chromium (apt-get install chromium), at the product's own HTTP server (under 1 min)
	$(BIN)/pytest -p no:xdist --durations=5 tests/dashboard $(PYTEST_ARGS)

.PHONY: test-fast
test-fast: controlplane ## unit tests and the smoke tests on the real API server (under 5 min)
	$(BIN)/pytest -n 2 --durations=5 tests/unit $(PYTEST_ARGS)
	$(BIN)/pytest -n 2 --dist loadfile --durations=5 -m smoke tests/controlplane

.PHONY: test-charts
test-charts: controlplane ## charts and what is delivered with them, through the real helm
	$(BIN)/pytest -n 2 --durations=5 tests/charts tests/delivery $(PYTEST_ARGS)

.PHONY: test-controlplane
test-controlplane: controlplane ## tests on real Kubernetes API servers: files run two at a time, each worker starts its own
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder --durations=15 tests/controlplane $(PYTEST_ARGS)

.PHONY: e2e
e2e: controlplane ## delivery and fake GPUs on a real kubelet (root; the first time it builds for 13 min)
	$(BIN)/pytest -m "e2e and not nvidia and not nightly" --durations=15 tests/e2e $(PYTEST_ARGS)

.PHONY: e2e-nvidia
e2e-nvidia: controlplane ## NVIDIA's device plugin and DRA driver, without a GPU, on a real kubelet (root; 3 min): NVIDIA=FOLDER with their programs; result into docs/conformance.md
	NVIDIA="$(NVIDIA)" $(BIN)/pytest -m nvidia --durations=5 tests/e2e/nvidia $(PYTEST_ARGS)

.PHONY: nightly
nightly: controlplane ## a search for new examples, a hundred kills and live sequences, 50 cases of whatif, 50 random groups, minutes without events, throughput of a real node (root; long)
	HYPOTHESIS_PROFILE=thorough $(BIN)/pytest -n 2 --timeout=900 tests/property $(PYTEST_ARGS)
	$(BIN)/pytest -m nightly --durations=0 --log-cli-level=info tests/controlplane tests/property $(PYTEST_ARGS)
	$(BIN)/pytest -m "e2e and nightly" --durations=0 --log-cli-level=info tests/e2e $(PYTEST_ARGS)

.PHONY: upstream-e2e
upstream-e2e: controlplane ## Kubernetes' own tests of scheduling, with kube-scheduler and with us; results into docs/conformance.md (half an hour, the first build 15 min more)
	$(BIN)/python -m tools.upstream_e2e $(ARGS)

.PHONY: chaos
chaos: controlplane ## half an hour of attacks, kills and outages; ARGS="--minutes 2 --seed 7"
	$(BIN)/python -m tests.chaos $(ARGS)

.PHONY: differential
differential: controlplane ## our decisions beside the real kube-scheduler's: SEQUENCES=300 SEED=1; resumes (docs/conformance.md)
	$(BIN)/python -m tests.differential --sequences $(or $(SEQUENCES),300) --seed $(or $(SEED),1) $(ARGS)

.PHONY: mutants
mutants: $(STAMP) ## take out each guard of tools/mutants/guards.yaml: a test must notice (3-20 min; ARGS=--policies: those of the admission policies, on a real API server)
	$(BIN)/python -m tools.mutants $(ARGS)

.PHONY: demo
demo: $(STAMP) ## the demo on a real API server; make demo ARGS=--keep leaves it running
	$(BIN)/gpuctl demo $(ARGS)

.PHONY: picture
picture: controlplane ## write the picture of gpuctl why in README.md, from a running product
	$(BIN)/python -m tools.why_picture

.PHONY: dashboard-pictures
dashboard-pictures: $(STAMP) ## write docs/images/dashboard-*.png from a running product (chromium)
	$(BIN)/python -m tests.dashboard.pictures

.PHONY: grafana-picture
grafana-picture: controlplane prometheus ## draw docs/images/grafana-*.svg: the panels of the dashboards, with the data of a test run
	GRAFANA_DATA=$(CURDIR)/build/grafana $(BIN)/pytest -q tests/controlplane/monitoring
	$(BIN)/python -m tools.monitoring.picture build/grafana/gpu-scheduler.json docs/images/grafana-gpu-scheduler.svg
	$(BIN)/python -m tools.monitoring.picture build/grafana/gpus-dcgm.json docs/images/grafana-gpus-dcgm.svg

.PHONY: lab
lab: $(STAMP) ## every part of the GPU scheduling lab on a real API server, and its report (1 min); ARGS="--report FILE"
	$(BIN)/python -m tools.lab $(ARGS)

.PHONY: contracts
contracts: $(STAMP) ## write docs/contracts.md from the tests' contract markers
	$(BIN)/python -m tools.contracts

.PHONY: charts
charts: $(STAMP) ## write the charts' copies, schemas and tables, and webhook/deploy/ (after cluster/ changed)
	$(BIN)/python -m tools.charts

.PHONY: package
package: $(STAMP) ## the charts as helm packages in dist/
	$(BIN)/python -m tools.release package

.PHONY: wheel
wheel: $(STAMP) ## gpuctl and the product as a wheel in dist/
	$(BIN)/python -m tools.release wheel

.PHONY: release-check
release-check: controlplane ## rehearse a release: charts through an OCI registry on the loopback interface, and the wheel
	$(BIN)/python -m tools.release check

.PHONY: publish
publish: $(STAMP) ## images and charts to REGISTRY=HOST/PATH (docker login first); DRY_RUN=1 prints what it would do
	@PINNED=1 PUSH=1 REGISTRY="$(REGISTRY)" scripts/build-images.sh
	$(DRY) $(BIN)/python -m tools.release push "$(REGISTRY)"

.PHONY: images
images: ## both images with docker; TAG=..., DRY_RUN=1 prints what it would do
	@scripts/build-images.sh

.PHONY: sbom
sbom: controlplane ## both images as an OCI archive without an engine, and the list of their parts, in dist/
	@mkdir -p dist
	$(BIN)/python -m tools.image --archive dist/images.tar --sbom dist/sbom.cdx.json

.PHONY: scan
scan: ## known holes in the locked packages; asks an advisory service (rules for our own code: lint)
	$(DRY) $(PYTHON) -m venv .scan-venv
	$(DRY) .scan-venv/bin/pip install --quiet --disable-pip-version-check pip-audit
	$(DRY) .scan-venv/bin/pip-audit --disable-pip --require-hashes -r requirements/runtime.txt

# The tag and the push of what was built are manual steps after the notes.
.PHONY: release
release: $(STAMP) ## changelog, versions, chart packages, images; VERSION=1.2.3, DRY_RUN=1 only says so
	$(BIN)/python -m tools.release notes $(VERSION) $(if $(DRY_RUN),--dry-run)
	$(DRY) $(BIN)/python -m tools.charts
	$(DRY) $(BIN)/python -m tools.release package
	@PINNED=1 TAG=$(or $(VERSION),$$($(BIN)/python -m tools.release version)) scripts/build-images.sh

.PHONY: lock
lock: ## renew requirements/*.txt with the newest versions that pyproject.toml allows
	@[ -n "$(PYTHON)" ] || { echo "make lock: no Python 3.11 or newer found" >&2; exit 1; }
	$(PYTHON) -m venv .lock-venv
	.lock-venv/bin/pip install --quiet --disable-pip-version-check uv
	PATH="$$PWD/.lock-venv/bin:$$PATH" requirements/compile --upgrade
	rm -rf .lock-venv

# Local clusters: the recipes are in cluster/Makefile. There `clean` removes the cluster, as in
# the seed; here it cleans this folder.
LOCAL := setup deploy-webhook verify logs-webhook logs-operator clean-workloads all
.PHONY: $(LOCAL) clean-cluster
setup: ## a local KinD cluster with simulated MIG; DRY_RUN=1 prints what it would do
deploy-webhook: ## scheduler and webhook in it
verify: ## whether its nodes, MIG resources and webhook are as they should be
logs-webhook: ## what its webhook decides
logs-operator: ## what its fake GPU operator does
clean-workloads: ## remove its test workloads
all: ## setup, deploy-webhook and verify
$(LOCAL):
	@$(MAKE) --no-print-directory -C cluster $@
clean-cluster: ## remove that cluster
	@$(MAKE) --no-print-directory -C cluster clean

.PHONY: clean
clean: ## remove .venv and every cache of this folder (not the built control plane)
	rm -rf $(VENV) .lock-venv .scan-venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	rm -rf build dist
	find fakegpu -name '*_pb2.py*' -delete
	find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +
